/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Arguments and results of user-space functions at their entry and return, by the calling conventions of the
 * architectures and of Go.
 */
#ifndef EBPFRECEIVER_ARGUMENTS_H
#define EBPFRECEIVER_ARGUMENTS_H

#include "vmlinux.h"

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(r) ((r)->di)
#define ARGUMENT_2(r) ((r)->si)
#define ARGUMENT_3(r) ((r)->dx)
#define ARGUMENT_4(r) ((r)->cx)
#define ARGUMENT_5(r) ((r)->r8)
#define RESULT(r) ((r)->ax)
#define FUNCTION(r) ((r)->ip)
/* The return has popped its address from the stack. */
#define SP_AT_ENTRY(r) ((r)->sp - 8)
/* Go's, since 1.17. */
#define GO_ARGUMENT_1(r) ((r)->ax)
#define GO_ARGUMENT_2(r) ((r)->bx)
#define GO_RESULT(r) ((r)->ax)
#define GOROUTINE(r) ((r)->r14)
#elif defined(__TARGET_ARCH_arm64)
#define ARGUMENT_1(r) ((r)->regs[0])
#define ARGUMENT_2(r) ((r)->regs[1])
#define ARGUMENT_3(r) ((r)->regs[2])
#define ARGUMENT_4(r) ((r)->regs[3])
#define ARGUMENT_5(r) ((r)->regs[4])
#define RESULT(r) ((r)->regs[0])
#define FUNCTION(r) ((r)->pc)
#define SP_AT_ENTRY(r) ((r)->sp)
#define GO_ARGUMENT_1(r) ((r)->regs[0])
#define GO_ARGUMENT_2(r) ((r)->regs[1])
#define GO_RESULT(r) ((r)->regs[0])
#define GOROUTINE(r) ((r)->regs[28])
#endif

/*
 * Go's before 1.17: on the stack, results after arguments, from the second word on. The first one is the
 * return address, on arm64 that of the function that is called next.
 */
#define GO_ON_STACK(r) ((r)->sp + 8)
/* Arguments of a method with a slice: its first word is the address, length and capacity follow. */
struct go_arguments {
	u64 receiver;
	u64 buffer;
};
#define GO_RESULT_ON_STACK(r) (GO_ON_STACK(r) + 4 * 8)

#endif
