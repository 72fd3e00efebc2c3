// SPDX-License-Identifier: Apache-2.0

// Connects to a port of 127.0.0.1, sends so many bytes in pieces of changing size, reads until the other side ends, and
// says how many bytes it has sent and received. Then it waits for its standard input to end.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char piece[64 << 10];

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	struct sockaddr_in server = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(argv[1])),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	long left = atol(argv[2]), sent = 0, received = 0, n;
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&server, sizeof(server)) < 0)
		return 1;
	for (long size = 1; left > 0; left -= n, sent += n, size = size * 7 % (sizeof(piece) - 1) + 1) {
		n = write(s, piece, size < left ? size : left);
		if (n < 0)
			return 1;
	}
	if (shutdown(s, SHUT_WR) < 0)
		return 1;
	while ((n = read(s, piece, sizeof(piece))) > 0)
		received += n;
	if (n < 0)
		return 1;
	close(s);
	printf("%ld %ld\n", sent, received);
	fflush(stdout);
	while (read(0, piece, sizeof(piece)) > 0)
		;
	return 0;
}
