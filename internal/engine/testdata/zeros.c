// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer -fno-optimize-sibling-calls
//
// zeros MILLISECONDS: uses that much CPU time, nearly all of it in the kernel,
// which copies zeros for inner(), which outer() calls.
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 20];
static volatile int sink;

#if defined(__x86_64__)
#define SPOIL() __asm__ volatile("mov $1, %%ebp" ::: "rbp")
#else
#define SPOIL() __asm__ volatile("mov x29, #1" ::: "x29")
#endif

__attribute__((noinline)) void inner(int fd)
{
	SPOIL();
	sink += read(fd, buffer, sizeof(buffer));
	SPOIL();
}

__attribute__((noinline)) void outer(int fd)
{
	inner(fd);
	SPOIL();
}

int main(int argc, char **argv)
{
	int fd = open("/dev/zero", O_RDONLY);
	struct timespec t;

	if (argc != 2 || fd < 0)
		return 2;
	do {
		for (int i = 0; i < 10; i++)
			outer(fd);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < atol(argv[1]));
	return 0;
}
