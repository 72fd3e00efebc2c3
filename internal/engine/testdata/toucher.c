// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -g -fno-optimize-sibling-calls -fomit-frame-pointer
// Touches new memory by two functions, itself and through the kernel, and prints for each a line of name and page faults, as
// the kernel counts them for the thread (getrusage). Waits for a line of input before it starts, between its steps and at the
// end: warm up, touch.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGES 3000

static long page;

static char *fresh(void)
{
	char *p = mmap(0, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, PAGES * page, MADV_NOHUGEPAGE);
	return p;
}

static long faults(void)
{
	struct rusage used;
	getrusage(RUSAGE_THREAD, &used);
	return used.ru_minflt + used.ru_majflt;
}

__attribute__((noinline)) static void touch(volatile char *p)
{
	for (long i = 0; i < PAGES; i++)
		p[i * page] = 1;
}

/* read(2), called in the function itself: before Linux 5.15 a stack from within the kernel goes by frame pointers. */
static inline long read_here(int file, char *to, long size)
{
#if defined(__x86_64__)
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "0"(0L), "D"(file), "S"(to), "d"(size) : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = 63, result __asm__("x0") = file, size_ __asm__("x2") = size;
	register char *to_ __asm__("x1") = to;
	__asm__ volatile("svc 0" : "+r"(result) : "r"(number), "r"(to_), "r"(size_) : "memory");
	return result;
#endif
}

__attribute__((noinline)) static int touch_by_kernel(char *p, int zero)
{
	int read_all = 1;
	for (long i = 0; i < PAGES; i++)
		read_all &= read_here(zero, p + i * page, 100) == 100;
	return read_all;
}

static void await(void)
{
	char c;
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

int main(void)
{
	static char out[1 << 16];
	int zero = open("/dev/zero", O_RDONLY);
	long before, own, kernels;
	page = sysconf(_SC_PAGESIZE);
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	await();
	touch(fresh());
	touch_by_kernel(fresh(), zero);
	printf("warm 0\n");
	fflush(stdout);
	await();
	char *first = fresh(), *second = fresh();
	before = faults();
	touch(first);
	own = faults() - before;
	before = faults();
	if (!touch_by_kernel(second, zero))
		return 1;
	kernels = faults() - before;
	printf("touch %ld\ntouch_by_kernel %ld\ndone 0\n", own, kernels);
	fflush(stdout);
	await();
	return 0;
}
