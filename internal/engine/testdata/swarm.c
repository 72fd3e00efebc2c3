// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -fno-omit-frame-pointer
//
// swarm CHILDREN MICROSECONDS PAUSE [exec]: starts that many processes one after the
// other, each of which uses that much CPU time, with PAUSE microseconds between; with
// exec each one runs this program anew.
// swarm MICROSECONDS: is one of them.
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

static void live(const char *microseconds)
{
	while (used() < atol(microseconds) * 1000)
		sting();
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		live(argv[1]);
		return 0;
	}
	if (argc != 4 && argc != 5)
		return 2;
	for (int i = 0; i < atoi(argv[1]); i++) {
		int status;
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (!pid && argc == 5) {
			execl("/proc/self/exe", argv[0], argv[2], (char *)0);
			_exit(127);
		}
		if (!pid) {
			live(argv[2]);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			return 1;
		usleep(atoi(argv[3]));
	}
	return 0;
}
