// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer -fno-optimize-sibling-calls
//
// thirty MILLISECONDS KERNEL: uses that much CPU time 30 calls deep, without
// frame pointers; in the kernel where KERNEL is 1.
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SPOIL() __asm__ volatile("mov $1, %%ebp" ::: "rbp")
#else
#define SPOIL() __asm__ volatile("mov x29, #1" ::: "x29")
#endif

static char buffer[1 << 18];
static volatile int sink;
static int kernel, fd;
static long until;

__attribute__((noinline)) void work(void)
{
	struct timespec t;

	do {
		for (int i = 0; i < 100; i++) {
			if (kernel)
				sink += read(fd, buffer, sizeof(buffer));
			else
				for (int j = 0; j < 10000; j++)
					sink += j;
		}
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < until);
	SPOIL();
}

/* Functions of their own, so that each frame is at another address. */
#define FRAME(n, next) __attribute__((noinline)) void f##n(void) { SPOIL(); next(); SPOIL(); }
FRAME(28, work)
FRAME(27, f28) FRAME(26, f27) FRAME(25, f26) FRAME(24, f25) FRAME(23, f24) FRAME(22, f23) FRAME(21, f22)
FRAME(20, f21) FRAME(19, f20) FRAME(18, f19) FRAME(17, f18) FRAME(16, f17) FRAME(15, f16) FRAME(14, f15)
FRAME(13, f14) FRAME(12, f13) FRAME(11, f12) FRAME(10, f11) FRAME(9, f10) FRAME(8, f9) FRAME(7, f8)
FRAME(6, f7) FRAME(5, f6) FRAME(4, f5) FRAME(3, f4) FRAME(2, f3) FRAME(1, f2)

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	until = atol(argv[1]);
	kernel = atoi(argv[2]);
	fd = open("/dev/zero", O_RDONLY);
	f1();
	return fd < 0;
}
