// SPDX-License-Identifier: Apache-2.0
// For each line of input it allocates 1,000 times 1,000 bytes, keeps the last 100, frees what it kept before, and prints how
// often it allocated and how many nanoseconds of CPU time that took.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N 1000
#define KEPT 100

static long used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void)
{
	static char in[64], buffers[2][1 << 12];
	static void *kept[KEPT];
	setvbuf(stdin, buffers[0], _IOLBF, sizeof(buffers[0]));
	setvbuf(stdout, buffers[1], _IOFBF, sizeof(buffers[1]));
	while (fgets(in, sizeof(in), stdin)) {
		long began = used();
		for (int i = 0; i < KEPT; i++)
			free(kept[i]);
		for (int i = 0; i < N; i++) {
			void *volatile p = malloc(1000);
			if (i >= N - KEPT)
				kept[i - (N - KEPT)] = p;
			else
				free(p);
		}
		printf("%d %ld\n", N, used() - began);
		fflush(stdout);
	}
	return 0;
}
