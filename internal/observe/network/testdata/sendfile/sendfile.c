// SPDX-License-Identifier: Apache-2.0
// A server with functions of OpenSSL's names, that encrypt nothing: heads of responses go through SSL_write, bodies through SSL_sendfile.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

struct connection {
	int fd;
};

int SSL_read(struct connection *ssl, void *buffer, int size) { return recv(ssl->fd, buffer, size, 0); }

int SSL_write(struct connection *ssl, const void *buffer, int size) { return send(ssl->fd, buffer, size, MSG_MORE); }

ssize_t SSL_sendfile(struct connection *ssl, int file, off_t offset, size_t size, int flags) { return sendfile(ssl->fd, file, &offset, size); }

/* A ClientHello is read and a ServerHello written, of 16 bytes. */
int SSL_do_handshake(struct connection *ssl)
{
	unsigned char hello[16];

	if (recv(ssl->fd, hello, sizeof(hello), MSG_WAITALL) != sizeof(hello))
		return -1;
	hello[5] = 2;
	return send(ssl->fd, hello, sizeof(hello), 0) == sizeof(hello) ? 1 : -1;
}

/* Sends a file of so many bytes as often as it is asked for. */
int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	struct connection ssl;
	char buffer[4096];
	long size = atol(argv[1]);
	int listener = socket(AF_INET, SOCK_STREAM, 0), n;
	FILE *file = tmpfile();

	if (argc != 2 || !file || ftruncate(fileno(file), size) || bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &length))
		return 1;
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	ssl.fd = accept(listener, 0, 0);
	if (SSL_do_handshake(&ssl) != 1)
		return 1;
	while (SSL_read(&ssl, buffer, sizeof(buffer)) > 0) {
		n = snprintf(buffer, sizeof(buffer), "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", size);
		if (SSL_write(&ssl, buffer, n) != n)
			return 1;
		for (long sent = 0; sent < size; sent += n) {
			n = SSL_sendfile(&ssl, fileno(file), sent, size - sent, 0);
			if (n <= 0)
				return 1;
		}
	}
	close(ssl.fd);
	pause();
	return 0;
}
