// SPDX-License-Identifier: Apache-2.0
// Two threads on one CPU that wake each other through pipes. For each line with a number of rounds that is read from
// standard input, prints how many ns they took: a round is two switches from one thread to the other.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int to[2], back[2];

static void pin(int cpu) {
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		abort();
}

static void *answer(void *arg) {
	char byte;
	while (read(to[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			abort();
	return NULL;
}

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv) {
	pthread_t thread;
	char byte = 0;
	long rounds;
	pin(argc > 1 ? atoi(argv[1]) : 0);
	if (pipe(to) || pipe(back) || pthread_create(&thread, NULL, answer, NULL))
		abort();
	while (scanf("%ld", &rounds) == 1) {
		long before = now();
		for (long i = 0; i < rounds; i++)
			if (write(to[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				abort();
		printf("%ld\n", now() - before);
		fflush(stdout);
	}
	return 0;
}
