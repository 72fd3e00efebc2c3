/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the hooks call to capture what connections carry. In the object without capture, functions that do nothing.
 */
#ifndef EBPFRECEIVER_NETWORK_CARRIED_H
#define EBPFRECEIVER_NETWORK_CARRIED_H

#ifdef NETWORK_CAPTURE
#include "network_lookup.h"
#include "network_unix.h"
#include "network_uring.h"
#else
#include "network_no_capture.h"
#endif

#endif
