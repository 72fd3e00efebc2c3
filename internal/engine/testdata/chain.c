// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -g -fno-omit-frame-pointer
//
// chain MILLISECONDS PROGRAM [ARGUMENT]...: uses that much CPU time in prologue()
// and becomes PROGRAM. With - for PROGRAM it ends there.
#include <string.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) static void prologue(void)
{
	for (volatile int i = 0; i < 50000; i++)
		;
}

int main(int argc, char **argv)
{
	struct timespec t;
	long end;

	if (argc < 3)
		return 2;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	end = t.tv_sec * 1000000000L + t.tv_nsec + atol(argv[1]) * 1000000L;
	do {
		prologue();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000000000L + t.tv_nsec < end);
	if (!strcmp(argv[2], "-"))
		return 0;
	execv(argv[2], argv + 2);
	return 3;
}
