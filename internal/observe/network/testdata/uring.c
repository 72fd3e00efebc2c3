// SPDX-License-Identifier: Apache-2.0
// cflags: -O1 -Wall

/*
 * HTTP/1.1 by io_uring, with nothing but system calls:
 *
 *	uring WAY server              writes its port, serves until its input ends, writes how many requests it has answered
 *	uring WAY client PORT C N     asks N times on each of C connections, writes how many responses it had, waits for its input to end
 *
 * WAY is how bytes are received and sent: see main().
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ENTRIES = 64, CONNECTIONS = 16, ROOM = 2048, BUFFERS = 32, BUFFER = 512, GROUP = 1 };
enum { ACCEPT = 1, RECEIVE, SEND, INPUT, LINKED };

static struct connection {
	int fd, have, asked, sent;
	char in[ROOM], out[ROOM];
	struct iovec to[3], from[2];
	struct msghdr receives, sends;
} connections[CONNECTIONS];

static const char *way;
static int ring, server, wanted, answers, busy;
static unsigned waiting;
static struct io_uring_params params;
static char *queue, *results;
static struct io_uring_sqe *entries;
static struct io_uring_buf_ring *group;
static char buffers[BUFFERS][BUFFER];

static int is(const char *name) { return !strcmp(way, name); }

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned *word(unsigned at) { return (unsigned *)(queue + at); }

static void give(unsigned id)
{
	unsigned short tail = group->tail;
	struct io_uring_buf *buffer = &group->bufs[tail & (BUFFERS - 1)];

	buffer->addr = (unsigned long)buffers[id];
	buffer->len = BUFFER;
	buffer->bid = id;
	__atomic_store_n(&group->tail, tail + 1, __ATOMIC_RELEASE);
}

static void set_up(void)
{
	unsigned size, i;

	if (is("sqpoll")) {
		params.flags = IORING_SETUP_SQPOLL;
		params.sq_thread_idle = 2000;
	}
	ring = syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring < 0)
		fail("io_uring_setup");
	size = params.sq_off.array + params.sq_entries * 4;
	i = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	queue = mmap(0, size > i ? size : i, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	entries = mmap(0, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	results = queue + params.cq_off.cqes;
	if (is("fixed")) {
		struct iovec all = { connections, sizeof(connections) };
		int files[CONNECTIONS];

		memset(files, -1, sizeof(files));
		if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &all, 1) ||
		    syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, files, CONNECTIONS))
			fail("io_uring_register");
	}
	if (!strncmp(way, "multishot", 9)) {
		struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = GROUP };

		group = mmap(0, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		reg.ring_addr = (unsigned long)group;
		if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &reg, 1))
			fail("IORING_REGISTER_PBUF_RING");
		for (i = 0; i < BUFFERS; i++)
			give(i);
	}
}

static void enter(unsigned wait)
{
	unsigned flags = wait ? IORING_ENTER_GETEVENTS : 0, count = waiting;
	long n;

	if (is("sqpoll")) {
		count = 0;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (*word(params.sq_off.flags) & IORING_SQ_NEED_WAKEUP)
			flags |= IORING_ENTER_SQ_WAKEUP;
	}
	n = syscall(SYS_io_uring_enter, ring, count, wait, flags, 0, 0);
	if (n < 0 && errno != EINTR)
		fail("io_uring_enter");
	waiting = is("sqpoll") || n < 0 ? 0 : waiting - n;
}

static struct io_uring_sqe *request(unsigned char code, struct connection *c, int kind)
{
	unsigned tail = *word(params.sq_off.tail), slot = tail & *word(params.sq_off.ring_mask);
	struct io_uring_sqe *e = &entries[slot];

	memset(e, 0, sizeof(*e));
	e->opcode = code;
	e->fd = c ? c->fd : -1;
	e->user_data = (c ? c - connections : 0) << 8 | kind;
	if (c && is("fixed")) {
		e->fd = c - connections;
		e->flags = IOSQE_FIXED_FILE;
	}
	if (c && is("async"))
		e->flags |= IOSQE_ASYNC;
	word(params.sq_off.array)[slot] = slot;
	return e;
}

/* The request is complete: from here on SQPOLL may take it. */
static void submit(void)
{
	__atomic_store_n(word(params.sq_off.tail), *word(params.sq_off.tail) + 1, __ATOMIC_RELEASE);
	waiting++;
}

static void memory(struct io_uring_sqe *e, void *at, unsigned size)
{
	e->addr = (unsigned long)at;
	e->len = size;
}

static void receive(struct connection *c)
{
	char *at = c->in + c->have;
	unsigned left = ROOM - c->have;
	struct io_uring_sqe *e;

	c->to[0] = (struct iovec){ at, 30 };
	c->to[1] = (struct iovec){ at + 30, 50 };
	c->to[2] = (struct iovec){ at + 80, left - 80 };
	c->receives = (struct msghdr){ .msg_iov = c->to, .msg_iovlen = 3 };
	if (is("message")) {
		memory(e = request(IORING_OP_RECVMSG, c, RECEIVE), &c->receives, 1);
	} else if (is("read")) {
		memory(e = request(IORING_OP_READ, c, RECEIVE), at, left);
	} else if (is("readv")) {
		memory(e = request(IORING_OP_READV, c, RECEIVE), c->to, 3);
	} else if (is("fixed")) {
		memory(e = request(IORING_OP_READ_FIXED, c, RECEIVE), at, left);
	} else if (is("multishot")) {
		e = request(IORING_OP_RECV, c, RECEIVE);
		e->ioprio = IORING_RECV_MULTISHOT;
		e->flags |= IOSQE_BUFFER_SELECT;
		e->buf_group = GROUP;
	} else if (is("multishot-message")) {
		c->receives = (struct msghdr){};
		memory(e = request(IORING_OP_RECVMSG, c, RECEIVE), &c->receives, 1);
		e->ioprio = IORING_RECV_MULTISHOT;
		e->flags |= IOSQE_BUFFER_SELECT;
		e->buf_group = GROUP;
	} else {
		memory(e = request(IORING_OP_RECV, c, RECEIVE), at, left);
	}
	submit();
}

static void sends(struct connection *c)
{
	unsigned size = strlen(c->out), first = size / 2;
	struct io_uring_sqe *e;

	c->from[0] = (struct iovec){ c->out, first };
	c->from[1] = (struct iovec){ c->out + first, size - first };
	c->sends = (struct msghdr){ .msg_iov = c->from, .msg_iovlen = 2 };
	c->sent = size;
	if (is("message")) {
		memory(e = request(IORING_OP_SENDMSG, c, SEND), &c->sends, 1);
	} else if (is("read")) {
		memory(e = request(IORING_OP_WRITE, c, SEND), c->out, size);
	} else if (is("readv")) {
		memory(e = request(IORING_OP_WRITEV, c, SEND), c->from, 2);
	} else if (is("fixed")) {
		memory(e = request(IORING_OP_WRITE_FIXED, c, SEND), c->out, size);
	} else if (is("zerocopy")) {
		memory(e = request(IORING_OP_SEND_ZC, c, SEND), c->out, size);
	} else if (is("linked") || is("halves")) {
		memory(e = request(IORING_OP_SEND, c, LINKED), c->out, first);
		if (is("linked"))
			e->flags |= IOSQE_IO_LINK;
		submit();
		memory(e = request(IORING_OP_SEND, c, SEND), c->out + first, size - first);
		c->sent = size - first;
	} else {
		memory(e = request(IORING_OP_SEND, c, SEND), c->out, size);
		if (is("silent"))
			e->flags |= IOSQE_CQE_SKIP_SUCCESS;
	}
	submit();
	if (is("silent"))
		receive(c);
}

static void ask(struct connection *c)
{
	char padding[601] = "";

	memset(padding, 'x', 600);
	sprintf(c->out, "GET /asked/%s HTTP/1.1\r\nHost: example\r\nPadding: %s\r\n\r\n", way, padding);
	c->asked++;
	sends(c);
}

/* A message may have come. Returns whether more is to be received. */
static int take(struct connection *c)
{
	char *end;

	c->in[c->have < ROOM ? c->have : ROOM - 1] = 0;
	end = strstr(c->in, "\r\n\r\n");
	if (!end || (!server && c->have < end + 4 + 5 - c->in))
		return 1;
	c->have = 0;
	answers++;
	if (server) {
		strcpy(c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
		sends(c);
	} else if (c->asked < wanted) {
		ask(c);
	} else {
		busy--;
	}
	return 0;
}

static void received(struct connection *c, int result, unsigned flags)
{
	int more = flags & IORING_CQE_F_MORE, again;

	if (result == -ENOBUFS) {
		receive(c);
		return;
	}
	if (result <= 0) {
		if (server) {
			close(c->fd);
			c->fd = -1;
		}
		return;
	}
	if (flags & IORING_CQE_F_BUFFER) {
		unsigned id = flags >> IORING_CQE_BUFFER_SHIFT, passed = is("multishot-message") ? sizeof(struct io_uring_recvmsg_out) : 0;

		result -= passed;
		if (!result) {
			close(c->fd);
			c->fd = -1;
			return;
		}
		memcpy(c->in + c->have, buffers[id] + passed, result);
		give(id);
	}
	c->have += result;
	again = take(c);
	if (flags & IORING_CQE_F_BUFFER ? !more : again)
		receive(c);
}

static void accepted(int fd)
{
	struct connection *c;
	int i, on = 1;

	if (fd < 0) {
		errno = -fd;
		fail("accept");
	}
	for (i = 0; i < CONNECTIONS && connections[i].fd >= 0; i++)
		;
	c = &connections[i];
	c->fd = fd;
	c->have = 0;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (is("fixed")) {
		struct io_uring_files_update update = { .offset = i, .fds = (unsigned long)&fd };

		if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES_UPDATE, &update, 1) != 1)
			fail("IORING_REGISTER_FILES_UPDATE");
	}
	if (server)
		receive(c);
}

static void accepts(int listener)
{
	struct io_uring_sqe *e = request(IORING_OP_ACCEPT, 0, ACCEPT);

	e->fd = listener;
	submit();
}

static void run(int listener)
{
	static char input[1];
	struct io_uring_sqe *e = request(IORING_OP_READ, 0, INPUT);

	e->fd = 0;
	memory(e, input, 1);
	submit();
	for (;;) {
		unsigned head = *word(params.cq_off.head);

		enter(head == __atomic_load_n(word(params.cq_off.tail), __ATOMIC_ACQUIRE));
		while (head != __atomic_load_n(word(params.cq_off.tail), __ATOMIC_ACQUIRE)) {
			struct io_uring_cqe r = ((struct io_uring_cqe *)results)[head & *word(params.cq_off.ring_mask)];
			struct connection *c = &connections[r.user_data >> 8];

			__atomic_store_n(word(params.cq_off.head), ++head, __ATOMIC_RELEASE);
			switch (r.user_data & 0xff) {
			case ACCEPT:
				accepted(r.res);
				accepts(listener);
				break;
			case RECEIVE:
				received(c, r.res, r.flags);
				break;
			case SEND:
				if (r.flags & IORING_CQE_F_NOTIF)
					break;
				if (r.res != c->sent) {
					fprintf(stderr, "%s: sent %d of %d\n", way, r.res, c->sent);
					exit(1);
				}
				if (strncmp(way, "multishot", 9))
					receive(c);
				break;
			case INPUT:
				return;
			}
			if (!server && !busy) {
				printf("%d\n", answers);
				fflush(stdout);
				busy = 1;
			}
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int listener = -1, i;

	if (argc < 3)
		return 2;
	way = argv[1]; /* plain, message, read, readv, fixed, multishot, multishot-message, linked, halves, silent, zerocopy, async, sqpoll */
	server = !strcmp(argv[2], "server");
	for (i = 0; i < CONNECTIONS; i++)
		connections[i].fd = -1;
	set_up();
	if (server) {
		listener = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64) || getsockname(listener, (struct sockaddr *)&address, &size))
			fail("listen");
		printf("%d\n", ntohs(address.sin_port));
		fflush(stdout);
		accepts(listener);
		run(listener);
		printf("%d\n", answers);
		return 0;
	}
	if (argc < 6)
		return 2;
	getchar();
	address.sin_port = htons(atoi(argv[3]));
	busy = atoi(argv[4]);
	wanted = atoi(argv[5]);
	for (i = 0; i < busy; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&address, size))
			fail("connect");
		accepted(fd);
		if (!strncmp(way, "multishot", 9))
			receive(&connections[i]);
		ask(&connections[i]);
	}
	run(-1);
	return 0;
}
