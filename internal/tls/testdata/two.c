// SPDX-License-Identifier: Apache-2.0
// A program that exports functions of OpenSSL, and has what programs with rustls have.

#include <stdio.h>

#ifdef RUSTLS
const char target[] = "rustls::client::hs";
#else
const char target[] = "nothing";
#endif

int SSL_read(void *object, void *buffer, int size) { return object && buffer ? size : -1; }
int SSL_write(void *object, const void *buffer, int size) { return object && buffer ? size : 0; }

/* As much code as a program with a library for TLS has at the least. */
__asm__(".text\n.skip 1048576\n");

int main(void) { return puts(target) < 0; }
