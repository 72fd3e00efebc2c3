// SPDX-License-Identifier: Apache-2.0
/*
 * Starts so many processes that sleep, and says how many there are. They end with this one, which ends with its
 * standard input, and after five minutes in any case.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { LONGEST = 300 };

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 0, started = 0;
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
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
