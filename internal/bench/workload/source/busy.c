// SPDX-License-Identifier: Apache-2.0
/* Keeps two threads busy for the seconds of its argument: seven parts of the work in hot(), three in warm(). */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double until;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) uint64_t hot(uint64_t x)
{
	for (int i = 0; i < 700000; i++)
		x = x * 6364136223846793005ULL + i;
	return x;
}

__attribute__((noinline)) uint64_t warm(uint64_t x)
{
	for (int i = 0; i < 300000; i++)
		x = x * 2862933555777941757ULL + i;
	return x;
}

static void *work(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	while (now() < until)
		x = warm(hot(x));
	return (void *)(uintptr_t)x;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *one, *other;

	until = now() + (argc > 1 ? atof(argv[1]) : 1);
	if (pthread_create(&thread, NULL, work, (void *)1))
		return 1;
	one = work((void *)2);
	if (pthread_join(thread, &other))
		return 1;
	printf("checksum %p\n", (void *)((uintptr_t)one ^ (uintptr_t)other));
	return 0;
}
