// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -fno-omit-frame-pointer
//
// mapper FILE MILLISECONDS: maps a file, executable, as a loader does, and uses
// that much CPU time.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

__attribute__((noinline)) static void work(void)
{
	for (volatile int i = 0; i < 50000; i++)
		;
}

int main(int argc, char **argv)
{
	struct timespec t;
	int fd;

	if (argc != 3)
		return 2;
	fd = open(argv[1], O_RDONLY);
	if (fd < 0 || mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 3;
	do {
		work();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000L + t.tv_nsec / 1000000 < atol(argv[2]));
	return 0;
}
