// SPDX-License-Identifier: Apache-2.0
//
// recorded: a program without a library whose stacks are recorded at each
// instruction; see record_linux_test.go. Built for amd64 and arm64.
typedef unsigned long word;

#define NOINLINE __attribute__((noinline, noclone))

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n.cfi_startproc\n.cfi_undefined rip\nxor %ebp, %ebp\nmov %rsp, %rdi\ncall begin\nhlt\n.cfi_endproc\n"
	".globl restorer\n.cfi_startproc\n.cfi_signal_frame\n.cfi_def_cfa rsp, 8\nnop\nrestorer:\nmov $15, %eax\nsyscall\n.cfi_endproc\n");
enum { NR_EXIT = 60, NR_SIGACTION = 13, NR_KILL = 62, NR_GETPID = 39 };
static word sys(word nr, word a, word b, word c, word d)
{
	register word r10 __asm__("r10") = d;
	word out;

	__asm__ volatile("syscall" : "=a"(out) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return out;
}
#else
__asm__(".globl _start\n_start:\n.cfi_startproc\n.cfi_undefined x30\nmov x29, #0\nmov x30, #0\nbl begin\nbrk #1\n.cfi_endproc\n"
	".globl restorer\n.cfi_startproc\n.cfi_signal_frame\nnop\nrestorer:\nmov x8, #139\nsvc #0\n.cfi_endproc\n");
enum { NR_EXIT = 93, NR_SIGACTION = 134, NR_KILL = 129, NR_GETPID = 172 };
static word sys(word nr, word a, word b, word c, word d)
{
	register word x8 __asm__("x8") = nr;
	register word x0 __asm__("x0") = a;
	register word x1 __asm__("x1") = b;
	register word x2 __asm__("x2") = c;
	register word x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#endif

extern char restorer[];
static volatile int sink;

NOINLINE int leaf(int n) { return n * 3 + sink; }

NOINLINE int deep(int n)
{
	volatile int here[4];

	for (int i = 0; i < 4; i++)
		here[i] = leaf(n + i);
	return n > 0 ? deep(n - 1) + here[n & 3] : here[3];
}

struct wide { volatile char b[64]; } __attribute__((aligned(64)));

NOINLINE int aligned(int n)
{
	struct wide w;

	for (int i = 0; i < 64; i += 16)
		w.b[i] = n;
	return leaf(n) + w.b[n & 48];
}

NOINLINE int dynamic(int n)
{
	volatile char *p = __builtin_alloca(n * 16 + 1);

	p[n] = n;
	return aligned(p[n]) + p[n];
}

NOINLINE int both(int n)
{
	struct wide w;
	volatile char *p = __builtin_alloca(n * 16 + 1);

	w.b[0] = p[n] = n;
	return leaf(p[n]) + leaf(w.b[0]) + p[n];
}

NOINLINE int sum(int n, ...)
{
	__builtin_va_list list;
	int total = 0;

	__builtin_va_start(list, n);
	for (int i = 0; i < n; i++)
		total += leaf(__builtin_va_arg(list, int));
	__builtin_va_end(list);
	return total;
}

NOINLINE int tail(int n) { return n & 1 ? deep(n) : leaf(n); }

NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	int x = leaf(a), y = leaf(b), z = leaf(c), u = leaf(d), v = leaf(e), w = leaf(f);

	return leaf(x + y) + leaf(z + u) + leaf(v + w) + leaf(g + h) + x + y + z + u + v + w + a + b + c + d + e + f;
}

static void handler(int signal) { sink += leaf(signal) + aligned(signal); }

NOINLINE void signals(int signal)
{
	struct { void (*handler)(int); word flags; void *restorer; word mask; } act = { handler, 0x04000000, restorer, 0 };

	sys(NR_SIGACTION, signal, (word)&act, 0, 8);
	sys(NR_KILL, sys(NR_GETPID, 0, 0, 0, 0), signal, 0, 0);
}

__attribute__((noreturn)) void begin(word *stack)
{
	int n = sink + 1, total = leaf(n) + deep(2) + dynamic(n) + both(n);

	(void)stack;
	total += sum(6, n, 2, 3, 4, 5, 6) + tail(n) + tail(n + 1) + many(n, 2, 3, 4, 5, 6, 7, 8);
	signals(10);
	sys(NR_EXIT, total == 4711, 0, 0, 0);
	__builtin_unreachable();
}
