// SPDX-License-Identifier: Apache-2.0
//
// burn(MILLISECONDS) works in functions each of which keeps something else in the frame pointer's register, so that only tables lead on.
// Code with another SALT is another binary.
#include <time.h>
#if defined(__x86_64__)
#define SPOIL() __asm__ volatile("mov $1, %%ebp" ::: "rbp")
#else
#define SPOIL() __asm__ volatile("mov x29, #1" ::: "x29")
#endif
#ifndef SALT
#define SALT ""
#endif
const char salt[] = SALT;
static volatile int sink;
__attribute__((noinline)) void inner(void)
{
	SPOIL();
	for (int i = 0; i < 10000; i++)
		sink += i;
	SPOIL();
}
__attribute__((noinline)) void middle(void) { inner(); SPOIL(); }
__attribute__((noinline)) void burn(long ms)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	for (long end = t.tv_sec * 1000L + t.tv_nsec / 1000000 + ms; t.tv_sec * 1000L + t.tv_nsec / 1000000 < end;) {
		for (int i = 0; i < 20; i++)
			middle();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	}
}
