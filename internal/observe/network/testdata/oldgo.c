// SPDX-License-Identifier: Apache-2.0
// cflags: -O1 -static -no-pie
// A server with methods of tls.Conn as Go 1.16 makes them for x86-64, that encrypt nothing: their arguments and results are on the stack, the
// goroutine is in a variable of the thread and in no register, each call is begun anew as if the goroutine were to pause, and what begins in
// one thread goes on in another one.
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__

/* As struct g of Go's runtime begins. */
struct goroutine {
	char *low, *high;
	unsigned long guard; /* the stack must not be below */
};

struct connection {
	int fd;
};

#define STACK (256 << 10)
#define PAUSE (~0UL) /* as a guard: where a function begins the goroutine is to pause */

__thread struct goroutine *runtime_g;

/* As the compiler and the linker of Go 1.16 write functions and their table; what calls them has nothing in registers. */
__asm__(".macro method name body\n"
	"\\name: mov %fs:runtime_g@tpoff, %rcx\n"
	"	cmp 16(%rcx), %rsp\n"
	"	jbe 1f\n"
	"	sub $56, %rsp\n"
	"	mov 64(%rsp), %rdi\n"
	"	mov 72(%rsp), %rsi\n"
	"	mov 80(%rsp), %rdx\n"
	"	call \\body\n"
	"	mov %rax, 96(%rsp)\n"
	"	mov $-1, %rax\n"
	"	xor %ebx, %ebx\n"
	"	xor %r14d, %r14d\n"
	"	add $56, %rsp\n"
	"	ret\n"
	"1:	call more_stack\n"
	"	jmp \\name\n"
	".endm\n"
	"	.text\n"
	"method go_read body_read\n"
	"method go_write body_write\n"
	"method go_handshake body_handshake\n"
	"more_stack: mov %fs:runtime_g@tpoff, %rcx\n"
	"	mov (%rcx), %rax\n"
	"	mov %rax, 16(%rcx)\n"
	"	ret\n"
	/* long call(function, connection, buffer, length) */
	".globl call\n"
	"call:	push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
	"	sub $56, %rsp\n"
	"	mov %rsi, 0(%rsp)\n"
	"	mov %rdx, 8(%rsp)\n"
	"	mov %rcx, 16(%rsp)\n"
	"	mov %rcx, 24(%rsp)\n"
	"	mov %rdi, %rdx\n"
	"	xor %eax, %eax\n"
	"	xor %ebx, %ebx\n"
	"	xor %esi, %esi\n"
	"	xor %edi, %edi\n"
	"	xor %r14d, %r14d\n"
	"	call *%rdx\n"
	"	mov 32(%rsp), %rax\n"
	"	add $56, %rsp\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
	"	ret\n"
	".macro describe entry name\n"
	"	.quad \\entry\n"
	"	.long \\name - names\n"
	"	.zero 32\n"
	".endm\n"
	"	.section .gopclntab, \"a\"\n"
	"table:	.long 0xfffffffa\n"
	"	.byte 0, 0, 1, 8\n"
	"	.quad 3, 0\n"
	"	.quad names - table, names - table, names - table, names - table, functions - table\n"
	"functions: .quad go_read, 1f - functions, go_write, 2f - functions, go_handshake, 3f - functions, more_stack\n"
	"1:	describe go_read name_read\n"
	"2:	describe go_write name_write\n"
	"3:	describe go_handshake name_handshake\n"
	"names:	.byte 0\n"
	"name_read: .asciz \"crypto/tls.(*Conn).Read\"\n"
	"name_write: .asciz \"crypto/tls.(*Conn).Write\"\n"
	"name_handshake: .asciz \"crypto/tls.(*Conn).serverHandshake\"\n"
	"	.text\n");

extern char go_read[], go_write[], go_handshake[];
long call(void *function, struct connection *conn, void *buffer, long length);

static struct goroutine g;
static ucontext_t goroutine, schedulers[2];
static sem_t turns[2];
static int running; /* the thread that has the goroutine */

/* The goroutine goes on in the other thread. */
static void moves(void)
{
	swapcontext(&goroutine, &schedulers[running]);
}

static void *schedule(void *thread)
{
	int me = (long)thread;

	for (;;) {
		sem_wait(&turns[me]);
		running = me;
		runtime_g = &g;
		swapcontext(&schedulers[me], &goroutine);
		runtime_g = 0;
		sem_post(&turns[!me]);
	}
	return 0;
}

long body_read(struct connection *conn, void *buffer, long length)
{
	long n;

	moves();
	n = recv(conn->fd, buffer, length, 0);
	moves();
	return n;
}

long body_write(struct connection *conn, const void *buffer, long length)
{
	moves();
	return send(conn->fd, buffer, length, 0);
}

/* A ClientHello is read and a ServerHello written, of 16 bytes. */
long body_handshake(struct connection *conn)
{
	unsigned char hello[16];

	moves();
	if (recv(conn->fd, hello, sizeof(hello), MSG_WAITALL) != sizeof(hello))
		exit(1);
	hello[5] = 2;
	return send(conn->fd, hello, sizeof(hello), 0);
}

static long paused(void *function, struct connection *conn, void *buffer, long length)
{
	g.guard = PAUSE;
	return call(function, conn, buffer, length);
}

static int listener;

static void serve(void)
{
	struct connection conn = { .fd = accept(listener, 0, 0) };
	char buffer[4096]; /* on the goroutine's stack */
	static char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

	paused(go_handshake, &conn, 0, 0);
	while (paused(go_read, &conn, buffer, sizeof(buffer)) > 0)
		if (paused(go_write, &conn, answer, sizeof(answer) - 1) != sizeof(answer) - 1)
			exit(1);
	close(conn.fd);
	pause();
}

/* Prints its port and answers what comes on one connection. */
int main(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	pthread_t other;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &length))
		return 1;
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	g.low = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g.low == MAP_FAILED || getcontext(&goroutine))
		return 1;
	g.high = g.low + STACK;
	goroutine.uc_stack.ss_sp = g.low;
	goroutine.uc_stack.ss_size = STACK;
	makecontext(&goroutine, serve, 0);
	sem_init(&turns[0], 0, 1);
	sem_init(&turns[1], 0, 0);
	if (pthread_create(&other, 0, schedule, (void *)1L))
		return 1;
	schedule((void *)0L);
	return 0;
}

#else

int main(void) { return 1; } /* there is no assembly for other machines */

#endif
