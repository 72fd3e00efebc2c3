// SPDX-License-Identifier: Apache-2.0
// TCP connections on the loopback interface.
//
//   connections open PAIRS EACH      between pairs of processes, of which one connects and the other accepts, EACH
//                                    connections are opened and stay open
//   connections churn PROCESSES MS   for so many ms each process opens connections, accepts them itself and closes both
//                                    ends at once: no process waits for another, so that there are as many as can be
//
// First prints the process ids and waits for a line on standard input. Then prints the number of connections that were
// opened and of those that were accepted, and goes on until standard input ends, when all connections are closed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PAIRS = 64, SOURCES = 200 };

static int churning;
static long amount; // connections, or ms

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static long now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct sockaddr_in loopback(int second, int last, uint16_t port) {
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	a.sin_addr.s_addr = htonl(127 << 24 | second << 16 | last);
	return a;
}

// Connects from one of several addresses, so that servers see several clients.
static int dial(const struct sockaddr_in *to, long i) {
	struct sockaddr_in from = loopback(1, 1 + i % SOURCES, 0);
	int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		fail("socket");
	setsockopt(fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &yes, sizeof(yes));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) || connect(fd, (struct sockaddr *)to, sizeof(*to)))
		fail("connect");
	return fd;
}

static long client(const struct sockaddr_in *to) {
	long n = 0;
	for (; n < amount; n++)
		dial(to, n);
	return n;
}

static long server(int listener) {
	long n = 0;
	for (; n < amount; n++)
		if (accept(listener, NULL, NULL) < 0)
			fail("accept");
	return n;
}

// Each connection is closed by a reset, which leaves no port behind that is waited for: sockets have that from their listener.
static long churn(int listener, const struct sockaddr_in *to) {
	struct linger reset = { .l_onoff = 1 };
	long n = 0, end = now_ms() + amount;
	if (setsockopt(listener, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		fail("setsockopt");
	for (; now_ms() < end; n++) {
		int from = socket(AF_INET, SOCK_STREAM, 0), accepted;
		if (from < 0 || connect(from, (const struct sockaddr *)to, sizeof(*to)))
			fail("connect");
		if ((accepted = accept(listener, NULL, NULL)) < 0)
			fail("accept");
		close(accepted);
		close(from);
	}
	return n;
}

// A child begins when `go` is closed, writes its count, and ends when `end` is.
static pid_t child(int side, int listener, const struct sockaddr_in *to, int go[2], int end[2], int reports) {
	pid_t parent = getpid(), pid = fork();
	char byte;
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	close(go[1]);
	close(end[1]);
	if (read(go[0], &byte, 1) != 0)
		_exit(1);
	long n = churning ? churn(listener, to) : side ? server(listener) : client(to);
	if (write(reports, &n, sizeof(n)) != sizeof(n) || read(end[0], &byte, 1) != 0)
		_exit(1);
	_exit(0);
}

int main(int argc, char **argv) {
	int go[2], end[2], reports[MAX_PAIRS][2][2], pairs = argc == 4 ? atoi(argv[2]) : 0;
	long opened = 0, accepted = 0;
	char line[16];
	if (pairs < 1 || pairs > MAX_PAIRS || (strcmp(argv[1], "open") && strcmp(argv[1], "churn"))) {
		fprintf(stderr, "connections: open PAIRS EACH, or churn PROCESSES MS; at most %d\n", MAX_PAIRS);
		return 2;
	}
	churning = !strcmp(argv[1], "churn");
	amount = atol(argv[3]);
	if (pipe(go) || pipe(end))
		fail("pipe");
	for (int i = 0; i < pairs; i++) {
		struct sockaddr_in at = loopback(2, 1 + i, 0);
		socklen_t size = sizeof(at);
		int listener = socket(AF_INET, SOCK_STREAM, 0);
		if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 4096) ||
		    getsockname(listener, (struct sockaddr *)&at, &size))
			fail("listen");
		for (int side = 0; side < 2 - churning; side++) {
			if (pipe(reports[i][side]))
				fail("pipe");
			printf("%d ", child(side, listener, &at, go, end, reports[i][side][1]));
			fflush(stdout);
			close(reports[i][side][1]);
		}
		close(listener);
	}
	printf("\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	close(go[1]);
	for (int i = 0; i < pairs; i++) {
		long n[2];
		for (int side = 0; side < 2 - churning; side++)
			if (read(reports[i][side][0], &n[side], sizeof(long)) != sizeof(long)) {
				fprintf(stderr, "connections: process %d failed\n", i);
				return 1;
			}
		opened += n[0];
		accepted += n[!churning];
	}
	printf("%ld %ld\n", opened, accepted);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
