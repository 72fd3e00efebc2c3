// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -g -fomit-frame-pointer
// Waits in known ways. Each mode prints numbers: what the kernel and its clocks say of the waits, in ns.
//   deadlock MS   two threads wait for each other's mutex until the process ends; prints their ids when they do
//   mixed MS      two threads compute, sleep briefly and long; prints id, wall clock and CPU time of each
//   shares MS     long_wait and brief_wait in turns of 7 and 3 ms; prints what each took off the CPU
//   crowd MS      two threads compute on one CPU; prints id and time in the run queue of each
//   disk DIR      writes a file in DIR to its device and reads it back, past the page cache; prints what each took off the CPU, how
//                 much of it was waiting for a CPU, and its wall clock
//   fault         touches two pages that come 60 ms later; prints what each took off the CPU, then the time before they came
//   reasons       waits 60 ms for each thing; prints what main waited for, in the order of the calls
// The last two compute until there is input, or its end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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
static volatile long locking[2]; // ids of threads that do nothing more but lock

__attribute__((noinline)) static void *embrace(void *arg) {
	long first = (long)arg;
	pthread_mutex_lock(&locks[first]);
	pthread_barrier_wait(&both);
	locking[first] = tid();
	pthread_mutex_lock(&locks[1 - first]);
	return NULL;
}

static int sleeps(long id) {
	char path[64], state = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", id);
	FILE *f = fopen(path, "r");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		abort();
	fclose(f);
	return state == 'S';
}

static void deadlock(long ms) {
	pthread_t t;
	pthread_barrier_init(&both, NULL, 2);
	for (long i = 0; i < 2; i++)
		pthread_create(&t, NULL, embrace, (void *)i);
	for (long i = 0; i < 2; i++)
		while (!locking[i] || !sleeps(locking[i]))
			nap(1000000);
	printf("%ld\n%ld\n", locking[0], locking[1]);
	fflush(stdout);
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
	long before = run_delay(); // until it ran at all is no wait of a thread that was running
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	long end = clock_ns(CLOCK_MONOTONIC) + duration;
	while (clock_ns(CLOCK_MONOTONIC) < end)
		;
	flockfile(stdout);
	printf("%ld %ld\n", tid(), run_delay() - before);
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

/* Computes until the program has been discovered: another test covers its first milliseconds. */
static void settle(void) {
	while (!poll(&(struct pollfd){.events = POLLIN}, 1, 0))
		;
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
	settle();
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

#define BLOCK (64 << 10)
#define BLOCKS 64

static void must(int ok, const char *what) {
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static void disk(const char *dir) {
	char path[4096];
	void *block;
	snprintf(path, sizeof(path), "%s/blocked.XXXXXX", dir);
	int fd = mkostemp(path, O_DIRECT);
	must(fd >= 0, path);
	must(!unlink(path), "unlink");
	must(!posix_memalign(&block, 4096, BLOCK), "posix_memalign");
	memset(block, 1, BLOCK);
	long delayed[3] = {run_delay()}, clock[3] = {clock_ns(CLOCK_MONOTONIC)};
	before = off_cpu();
	for (int i = 0; i < BLOCKS; i++)
		must(pwrite(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK, "pwrite");
	must(!fsync(fd), "fsync");
	long written = off_cpu() - before;
	clock[1] = clock_ns(CLOCK_MONOTONIC);
	delayed[1] = run_delay();
	before = off_cpu();
	for (int i = 0; i < BLOCKS; i++)
		must(pread(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK, "pread");
	long read = off_cpu() - before;
	clock[2] = clock_ns(CLOCK_MONOTONIC);
	delayed[2] = run_delay();
	printf("%ld %ld %ld %ld %ld %ld\n", written, delayed[1] - delayed[0], clock[1] - clock[0], read, delayed[2] - delayed[1], clock[2] - clock[1]);
	nap(300000000); // disks are quick: the engine reads the names of functions while the program lives
}

#define PAGE 4096
#define PAGES 2

static char *absent;
static long held[PAGES];

// Answers page faults late.
static void *serve(void *arg) {
	for (int i = 0; i < PAGES; i++) {
		struct uffd_msg fault;
		must(read((int)(long)arg, &fault, sizeof(fault)) == sizeof(fault), "reading a page fault");
		long met = clock_ns(CLOCK_MONOTONIC);
		nap(WAIT);
		held[i] = clock_ns(CLOCK_MONOTONIC) - met;
		struct uffdio_zeropage zero = {.range = {fault.arg.pagefault.address & ~(PAGE - 1UL), PAGE}};
		must(!ioctl((int)(long)arg, UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE");
	}
	return NULL;
}

__attribute__((noinline)) static void touch(long page) {
	*(volatile char *)(absent + page * PAGE) = 1;
	took();
}

static void fault(void) {
	pthread_t t;
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	must(fd >= 0, "userfaultfd");
	struct uffdio_api api = {.api = UFFD_API};
	must(!ioctl(fd, UFFDIO_API, &api), "UFFDIO_API");
	absent = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(absent != MAP_FAILED, "mmap");
	struct uffdio_register wanted = {.range = {(unsigned long)absent, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	must(!ioctl(fd, UFFDIO_REGISTER, &wanted), "UFFDIO_REGISTER");
	must(!pthread_create(&t, NULL, serve, (void *)fd), "pthread_create");
	settle();
	before = off_cpu();
	for (long page = 0; page < PAGES; page++)
		touch(page);
	pthread_join(t, NULL);
	for (int i = 0; i < PAGES; i++)
		printf("%ld\n", held[i]);
}

int main(int argc, char **argv) {
	if (argc < 2)
		return 2;
	duration = argc > 2 ? atol(argv[2]) * 1000000L : 0;
	if (!strcmp(argv[1], "deadlock"))
		deadlock(duration / 1000000);
	else if (!strcmp(argv[1], "mixed"))
		pair_up(mix);
	else if (!strcmp(argv[1], "crowd")) {
		nap(500000000); // it is in scope by then
		pair_up(compete);
	}
	else if (!strcmp(argv[1], "shares"))
		shares();
	else if (!strcmp(argv[1], "disk") && argc > 2)
		disk(argv[2]);
	else if (!strcmp(argv[1], "fault"))
		fault();
	else
		reasons();
	return 0;
}
