// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -fno-omit-frame-pointer
//
// swarm CHILDREN MICROSECONDS PAUSE: starts that many processes one after the
// other, each of which uses that much CPU time, with PAUSE microseconds between.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((noinline)) static void sting(void)
{
	for (volatile int i = 0; i < 5000; i++)
		;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	for (int i = 0; i < atoi(argv[1]); i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (!pid) {
			while (used() < atol(argv[2]) * 1000)
				sting();
			_exit(0);
		}
		if (waitpid(pid, 0, 0) != pid)
			return 1;
		usleep(atoi(argv[3]));
	}
	return 0;
}
