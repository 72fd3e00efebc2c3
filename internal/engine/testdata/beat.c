// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -fno-omit-frame-pointer
//
// beat MILLISECONDS PERIOD WORK: for that long, wakes every PERIOD microseconds
// of the clock and uses WORK microseconds of CPU time each time, as an animation
// or a poller does. Prints the nanoseconds of CPU time that it used.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((noinline)) static void work(long until)
{
	while (now(CLOCK_PROCESS_CPUTIME_ID) < until)
		;
}

int main(int argc, char **argv)
{
	long next, end, period, share;

	if (argc != 4)
		return 2;
	next = now(CLOCK_MONOTONIC);
	end = next + atol(argv[1]) * 1000000L;
	period = atol(argv[2]) * 1000L;
	share = atol(argv[3]) * 1000L;
	while (next < end) {
		struct timespec t;

		next += period;
		t.tv_sec = next / 1000000000L;
		t.tv_nsec = next % 1000000000L;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0))
			;
		work(now(CLOCK_PROCESS_CPUTIME_ID) + share);
	}
	printf("%ld\n", now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
