// SPDX-License-Identifier: Apache-2.0
//
// steps: one call of everything that frames are made of, as short as can be,
// because it is run instruction by instruction. It prints a sum that no compiler
// can know.
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int sink;
static volatile int caught;
static jmp_buf back;

NOINLINE int leaf(int n) { return n * 3 + sink; }

NOINLINE int deep(int n)
{
	int here[8];

	for (int i = 0; i < 8; i++)
		here[i] = leaf(n + i);
	return n > 0 ? deep(n - 1) + here[n & 7] : here[3];
}

struct wide { char b[64]; } __attribute__((aligned(64)));

NOINLINE int aligned(int n)
{
	struct wide w;

	memset(&w, n, sizeof(w));
	return deep(1) + w.b[n & 63] + strnlen(w.b, sizeof(w.b));
}

NOINLINE int dynamic(int n)
{
	char *p = alloca(n * 16 + 1);

	memset(p, n, n * 16 + 1);
	return aligned(p[n]) + p[n * 16];
}

NOINLINE int both(int n)
{
	struct wide w;
	char *p = alloca(n * 16 + 1);

	memset(&w, n, sizeof(w));
	memset(p, n, n * 16 + 1);
	return leaf(p[n]) + leaf(w.b[n]) + p[n * 16];
}

NOINLINE int huge(int n)
{
	volatile char b[70000];

	b[n] = 1;
	return dynamic(n) + b[n];
}

NOINLINE int sum(int n, ...)
{
	va_list list;
	int total = 0;

	va_start(list, n);
	for (int i = 0; i < n; i++)
		total += leaf(va_arg(list, int));
	va_end(list);
	return total;
}

NOINLINE double doubles(int n, ...)
{
	va_list list;
	double total = 0;

	va_start(list, n);
	for (int i = 0; i < n; i++)
		total += va_arg(list, double);
	va_end(list);
	return total + leaf(n);
}

NOINLINE int tail(int n) { return n & 1 ? deep(n) : leaf(n); }

NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	int x = leaf(a), y = leaf(b), z = leaf(c), u = leaf(d), v = leaf(e), w = leaf(f);

	return leaf(x + y) + leaf(z + u) + leaf(v + w) + leaf(g + h) + x + y + z + u + v + w + a + b + c + d + e + f;
}

NOINLINE __attribute__((noreturn)) void leave(int n)
{
	deep(n);
	longjmp(back, n + 1);
}

/* Its last instruction is a call. */
NOINLINE __attribute__((noreturn)) void leave_by_call(int n)
{
	sink = n;
	leave(n);
}

NOINLINE int jumps(int n)
{
	int got = setjmp(back);

	if (!got)
		leave_by_call(n);
	return got;
}

NOINLINE int rare(int n)
{
	if (__builtin_expect(n > 3, 0)) {
		sink = leaf(n) + leaf(n + 1);
		return deep(n & 1);
	}
	return leaf(n);
}

static int smaller(const void *a, const void *b) { return leaf(*(const int *)a) - leaf(*(const int *)b); }

static void handler(int signal)
{
	caught += leaf(signal);
}

NOINLINE int sorts(void)
{
	int list[] = { 5, 3, 8, 1, 9, 2 };

	qsort(list, 6, sizeof(list[0]), smaller);
	return bsearch(&list[2], list, 6, sizeof(list[0]), smaller) != NULL;
}

#if defined(__x86_64__)
/* As hand-written vector code: the frame is found by a register that the callee, of the same author, leaves alone. */
int by_scratch(int n);
__asm__(".text\n"
	".type scratch_callee, @function\n"
	"scratch_callee: .cfi_startproc\n"
	"lea (%rdi,%rdi,2), %edi\n nop\n ret\n"
	".cfi_endproc\n .size scratch_callee, . - scratch_callee\n"
	".type by_scratch, @function\n"
	"by_scratch: .cfi_startproc\n"
	"lea (%rsp), %rax\n .cfi_def_cfa %rax, 8\n"
	"push %rbx\n .cfi_offset %rbx, -16\n"
	"push %rbp\n .cfi_offset %rbp, -24\n"
	"xor %ebp, %ebp\n"
	"sub $100, %rsp\n and $-128, %rsp\n"
	"call scratch_callee\n"
	"mov -8(%rax), %rbx\n .cfi_restore %rbx\n"
	"mov -16(%rax), %rbp\n .cfi_restore %rbp\n"
	"lea (%rax), %rsp\n .cfi_def_cfa %rsp, 8\n"
	"mov %edi, %eax\n ret\n"
	".cfi_endproc\n .size by_scratch, . - by_scratch\n");
#else
NOINLINE int by_scratch(int n) { return 3 * n; }
#endif

NOINLINE int clocks(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_nsec & 1;
}

/* On a stack of its own. */
NOINLINE int elsewhere(void)
{
	static char other[64 << 10];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) }, old;
	struct sigaction there = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, &old);
	sigaction(SIGUSR2, &there, NULL);
	return raise(SIGUSR2);
}

int main(int argc, char **argv)
{
	struct sigaction here = { .sa_handler = handler };
	int n = argc, total = 0;

	sigaction(SIGUSR1, &here, NULL);
	raise(SIGUSR1); /* more may come */
	total += leaf(n) + deep(2 + n) + huge(n) + both(n);
	total += sum(7, n, 2, 3, 4, 5, 6, 7) + (int)doubles(3, 1.0, 2.0, (double)n);
	total += tail(n) + tail(n + 1) + many(n, 2, 3, 4, 5, 6, 7, 8);
	total += jumps(n) + rare(n) + rare(n + 3) + by_scratch(n) + sorts() + clocks() + elsewhere();
	printf("%d %d %s\n", total, caught, argv[0]);
	return 0;
}
