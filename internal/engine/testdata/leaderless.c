// SPDX-License-Identifier: Apache-2.0
// cflags: -O1 -fno-omit-frame-pointer -pthread
//
// leaderless MILLISECONDS AFTER: a thread uses that much CPU time in outlive(), prints the nanoseconds that it used and ends the
// process. The main thread ends before, AFTER milliseconds from the start. Half-way, after a second at most, the thread maps code.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long total;
static const char *self;

static long used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((noinline)) static void outlive(void)
{
	for (volatile int i = 0; i < 1000000; i++)
		;
}

static void *work(void *none)
{
	while (used() < total / 2 && used() < 1000000000L)
		outlive();
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(self, O_RDONLY), 0) == MAP_FAILED)
		_exit(1);
	while (used() < total)
		outlive();
	printf("%ld\n", used());
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	self = argv[0];
	total = atol(argv[1]) * 1000000L;
	if (pthread_create(&thread, NULL, work, NULL))
		return 1;
	usleep(atol(argv[2]) * 1000);
	pthread_exit(NULL);
}
