// SPDX-License-Identifier: Apache-2.0
// A server into which OpenSSL is linked. It is given the files of its certificate and key and the pause of /slow in ms, and prints its port. It
// reads and writes by the functions that store how much they have moved, every other connection by those that return it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// As in openssl/ssl.h, which a machine need not have.
extern void *TLS_server_method(void), *SSL_CTX_new(const void *), *SSL_new(void *);
extern int SSL_CTX_use_certificate_file(void *, const char *, int), SSL_CTX_use_PrivateKey_file(void *, const char *, int);
extern int SSL_set_fd(void *, int), SSL_accept(void *), SSL_shutdown(void *);
extern int SSL_read(void *, void *, int), SSL_write(void *, const void *, int);
extern int SSL_read_ex(void *, void *, size_t, size_t *), SSL_write_ex(void *, const void *, size_t, size_t *);
extern void SSL_free(void *);
#define PEM 1

static void *context;
static int pause_us;

static int receive(void *tls, int counts, char *to, int most) {
	size_t got = 0;
	if (counts)
		return SSL_read_ex(tls, to, most, &got) == 1 ? (int)got : -1;
	return SSL_read(tls, to, most);
}

static void answer(void *tls, int counts, const char *path) {
	char response[128];
	size_t sent;
	int slow = !strncmp(path, "/slow ", 6);
	if (slow)
		usleep(pause_us);
	int n = snprintf(response, sizeof(response), "HTTP/1.1 %s\r\nContent-Length: 6\r\n\r\nstatic",
			 slow || !strncmp(path, "/here ", 6) ? "200 OK" : "404 Not Found");
	if (counts)
		SSL_write_ex(tls, response, n, &sent);
	else
		SSL_write(tls, response, n);
}

static void *serve(void *of) {
	int fd = (int)(long)of, have = 0, n, on = 1;
	static int connections;
	int counts = __atomic_fetch_add(&connections, 1, __ATOMIC_RELAXED) & 1;
	char buffer[4096], *end;
	void *tls = SSL_new(context);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	SSL_set_fd(tls, fd);
	if (SSL_accept(tls) == 1) {
		while (have < (int)sizeof(buffer) - 1 && (n = receive(tls, counts, buffer + have, sizeof(buffer) - 1 - have)) > 0) {
			have += n;
			buffer[have] = 0;
			while ((end = strstr(buffer, "\r\n\r\n"))) {
				char *path = strchr(buffer, ' ');
				if (!path || path > end)
					goto out;
				answer(tls, counts, path + 1);
				have -= end + 4 - buffer;
				memmove(buffer, end + 4, have + 1);
			}
		}
	out:
		SSL_shutdown(tls);
	}
	SSL_free(tls);
	close(fd);
	return NULL;
}

int main(int argc, char **argv) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (argc < 4)
		return 2;
	pause_us = atoi(argv[3]) * 1000;
	context = SSL_CTX_new(TLS_server_method());
	if (SSL_CTX_use_certificate_file(context, argv[1], PEM) != 1 || SSL_CTX_use_PrivateKey_file(context, argv[2], PEM) != 1 ||
	    bind(listener, (struct sockaddr *)&at, size) || listen(listener, 64) || getsockname(listener, (struct sockaddr *)&at, &size))
		return 1;
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		pthread_t thread;
		long fd = accept(listener, NULL, NULL);
		if (fd < 0)
			return 1;
		pthread_create(&thread, NULL, serve, (void *)fd);
		pthread_detach(thread);
	}
}
