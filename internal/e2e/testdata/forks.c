// SPDX-License-Identifier: Apache-2.0
//
// A server that forks for each connection, and a command that asks it once and ends, as a shell runs it in a loop; with a pause in
// milliseconds it asks again after each. All end with their parent.
//
// cflags: -O2
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

static void answer(int conn)
{
	char request[4096];

	if (read(conn, request, sizeof(request)) > 0)
		(void)!write(conn, response, sizeof(response) - 1);
	close(conn);
}

static int serve(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 128) || getsockname(listener, (void *)&at, &length))
		return 1;
	signal(SIGCHLD, SIG_IGN);
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		int conn = accept(listener, 0, 0);

		if (conn < 0)
			return 1;
		if (!fork()) {
			close(listener);
			answer(conn);
			_exit(0);
		}
		close(conn);
	}
}

static int ask(int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const char *request = "GET /hello HTTP/1.1\r\nHost: shop.example\r\n\r\n";
	int conn = socket(AF_INET, SOCK_STREAM, 0);
	char text[4096];
	int all = 0, n;

	if (connect(conn, (void *)&to, sizeof(to)) || write(conn, request, strlen(request)) < 0)
		return 1;
	while ((n = read(conn, text, sizeof(text))) > 0)
		all += n;
	close(conn);
	return all != sizeof(response) - 1;
}

int main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc < 2)
		return serve();
	while (argc > 2) {
		ask(atoi(argv[1]));
		usleep(atoi(argv[2]) * 1000);
	}
	return ask(atoi(argv[1]));
}
