// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -g -fomit-frame-pointer
// Waits in known ways. Each mode prints numbers: what the kernel and its clocks say of the waits, in ns.
//   deadlock MS   two threads wait for each other's mutex until the process ends; prints their ids
//   mixed MS      two threads compute, sleep briefly and long; prints id, wall clock and CPU time of each
//   shares MS     long_wait and brief_wait in turns of 7 and 3 ms; prints what each took off the CPU
//   crowd MS      two threads compute on one CPU; prints id and time in the run queue of each
//   reasons       waits 60 ms for each thing; prints what main waited for, in the order of the calls
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long clock_ns(clockid_t id) {
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long tid(void) { return syscall(SYS_gettid); }

static void nap(long ns) {
	struct timespec t = {ns / 1000000000L, ns % 1000000000L};
	nanosleep(&t, NULL);
}

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;

__attribute__((noinline)) static void *embrace(void *arg) {
	long first = (long)arg;
	pthread_mutex_lock(&locks[first]);
	printf("%ld\n", tid());
	fflush(stdout);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&locks[1 - first]);
	return NULL;
}

static void deadlock(long ms) {
	pthread_t t;
	pthread_barrier_init(&both, NULL, 2);
	for (long i = 0; i < 2; i++)
		pthread_create(&t, NULL, embrace, (void *)i);
	nap(ms * 1000000L);
	_exit(0);
}

static void burn(long ns) {
	for (long end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns; clock_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
		;
}

static long duration;

static void *mix(void *arg) {
	long wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), now;
	long self = tid();
	do {
		burn(1000000);
		nap(150000);
		nap(3000000);
		now = clock_ns(CLOCK_MONOTONIC);
	} while (now - wall < duration);
	flockfile(stdout);
	printf("%ld %ld %ld\n", self, now - wall, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	funlockfile(stdout);
	return NULL;
}

// Field 2 of /proc/thread-self/schedstat: how long the thread has waited in run queues.
static long run_delay(void) {
	long ran, waited;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");
	if (!f || fscanf(f, "%ld %ld", &ran, &waited) != 2)
		abort();
	fclose(f);
	return waited;
}

static void *compete(void *arg) {
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	long end = clock_ns(CLOCK_MONOTONIC) + duration;
	while (clock_ns(CLOCK_MONOTONIC) < end)
		;
	flockfile(stdout);
	printf("%ld %ld\n", tid(), run_delay());
	funlockfile(stdout);
	return NULL;
}

static void pair_up(void *(*work)(void *)) {
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

static long off_cpu(void) { return clock_ns(CLOCK_MONOTONIC) - clock_ns(CLOCK_THREAD_CPUTIME_ID); }

__attribute__((noinline)) static void long_wait(void) {
	nap(7000000);
	__asm__ volatile("");
}

__attribute__((noinline)) static void brief_wait(void) {
	nap(3000000);
	__asm__ volatile("");
}

static void shares(void) {
	long spent[2] = {0, 0}, end = clock_ns(CLOCK_MONOTONIC) + duration;
	do {
		long before = off_cpu();
		long_wait();
		long between = off_cpu();
		brief_wait();
		spent[0] += between - before;
		spent[1] += off_cpu() - between;
	} while (clock_ns(CLOCK_MONOTONIC) < end);
	printf("%ld %ld\n", spent[0], spent[1]);
}

#define WAIT 60000000L

// Writes a byte to each descriptor after a time of its own.
static void *wake(void *arg) {
	int *fds = arg;
	for (int i = 0; fds[i] >= 0; i++) {
		nap(WAIT);
		if (write(fds[i], "x", 1) != 1)
			abort();
	}
	return NULL;
}

static void *hold(void *arg) {
	pthread_mutex_lock(&locks[0]);
	pthread_barrier_wait(&both);
	nap(WAIT);
	pthread_mutex_unlock(&locks[0]);
	return NULL;
}

static long before;

static void took(void) {
	long now = off_cpu();
	printf("%ld\n", now - before);
	before = off_cpu();
}

static void reasons(void) {
	int piped[2], pair[2], epoll = epoll_create1(0);
	char byte;
	pthread_t t;
	struct epoll_event event = {.events = EPOLLIN};
	if (pipe(piped) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		abort();
	event.data.fd = pair[0];
	epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event);
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&t, NULL, hold, NULL);
	pthread_barrier_wait(&both);
	before = off_cpu();
	pthread_mutex_lock(&locks[0]); // lock
	took();
	nap(WAIT); // sleep
	took();
	poll(NULL, 0, WAIT / 1000000); // sleep
	took();
	select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = WAIT / 1000}); // sleep
	took();
	poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, WAIT / 1000000); // network
	took();
	epoll_wait(epoll, &event, 1, WAIT / 1000000); // network
	took();
	pthread_join(t, NULL);
	int fds[] = {pair[1], pair[1], piped[1], -1};
	before = off_cpu();
	pthread_create(&t, NULL, wake, fds);
	if (read(pair[0], &byte, 1) != 1) // network
		abort();
	took();
	if (recv(pair[0], &byte, 1, 0) != 1) // network
		abort();
	took();
	if (read(piped[0], &byte, 1) != 1) // other
		abort();
	took();
	pthread_join(t, NULL);
	before = off_cpu();
	pid_t child = fork();
	if (!child) {
		nap(WAIT);
		_exit(0);
	}
	waitpid(child, NULL, 0); // other
	took();
}

int main(int argc, char **argv) {
	if (argc < 2)
		return 2;
	duration = argc > 2 ? atol(argv[2]) * 1000000L : 0;
	if (!strcmp(argv[1], "deadlock"))
		deadlock(duration / 1000000);
	else if (!strcmp(argv[1], "mixed"))
		pair_up(mix);
	else if (!strcmp(argv[1], "crowd"))
		pair_up(compete);
	else if (!strcmp(argv[1], "shares"))
		shares();
	else
		reasons();
	return 0;
}
