// SPDX-License-Identifier: Apache-2.0
/*
 * Starts so many processes that sleep, and says how many there are. They end with this one, which ends with its
 * standard input, and after five minutes in any case. Meanwhile it starts so many others a second, each of which
 * lives for a millisecond.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 300, SECOND = 1000000000 };

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 0, forks = argc > 2 ? atoi(argv[2]) : 0, started = 0;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct timespec pause_for = { .tv_nsec = forks > 0 ? SECOND / forks : 0 };
	struct timespec life = { .tv_nsec = SECOND / 1000 };
	char byte;

	signal(SIGCHLD, SIG_IGN);
	alarm(LONGEST);
	for (; started < wanted; started++) {
		pid_t child = fork();

		if (child < 0)
			break;
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == 1)
				_exit(0);
			alarm(LONGEST);
			close(0);
			close(1);
			for (;;)
				pause();
		}
	}
	printf("%d\n", started);
	fflush(stdout);
	while (forks > 0 && poll(&input, 1, 0) == 0) {
		pid_t child = fork();

		if (!child) {
			nanosleep(&life, NULL);
			_exit(0);
		}
		nanosleep(&pause_for, NULL);
	}
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
