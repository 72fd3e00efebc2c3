/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * stepper TABLES MAXSTEPS SIGNALEVERY RECORDS PROGRAM ARGUMENTS...: runs a program
 * instruction by instruction and unwinds its stack at each. The truth is a shadow
 * stack, kept by watching calls and returns. A line on the standard output asks for
 * the process's tables to be made anew; the answer is where its list is.
 *
 * From the program's first SIGUSR1 on another one comes in between every SIGNALEVERY
 * instructions of its own file;
 * RECORDS, unless "-", takes the registers and the stack of every instruction of
 * that file when it is executed for the first time.
 */
#define _GNU_SOURCE
#include "hosted.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#define MAX_DEPTH 1000
#define WRONG_SHOWN 12
#define RECORD_MAX 4096 /* bytes of stack */
#define RED_ZONE 128    /* below the stack pointer: System V ABI, AMD64, 3.2.2 */

static pid_t child;

/* A few pages of the child's memory as they are between two instructions. */
#define PAGE 4096
#define PAGES 64
static struct { u64 at, moment; u8 bytes[PAGE]; } held[PAGES];
static u64 moment = 1;

static const u8 *page_of(u64 at)
{
	u32 slot = at / PAGE % PAGES;
	struct iovec to = { held[slot].bytes, PAGE }, from = { (void *)at, PAGE };

	if (held[slot].at == at && held[slot].moment == moment)
		return held[slot].bytes;
	held[slot].moment = 0;
	if (process_vm_readv(child, &to, 1, &from, 1, 0) != PAGE)
		return 0;
	held[slot].at = at;
	held[slot].moment = moment;
	return held[slot].bytes;
}

static long unwind_read(void *to, u32 size, u64 from)
{
	while (size) {
		u32 in = from % PAGE, n = PAGE - in < size ? PAGE - in : size;
		const u8 *page = page_of(from - in);

		if (!page)
			return -EFAULT;
		memcpy(to, page + in, n);
		to = (u8 *)to + n;
		from += n;
		size -= n;
	}
	return 0;
}

/* The shadow stack: where calls return to, and what signals have interrupted. */
static struct { u64 slot, pc; bool signal; } shadow[MAX_DEPTH];
static u32 depth;

static void push(u64 slot, u64 pc, bool signal)
{
	if (depth == MAX_DEPTH) {
		fprintf(stderr, "the program calls deeper than %d\n", MAX_DEPTH);
		exit(2);
	}
	shadow[depth].slot = slot;
	shadow[depth].pc = pc;
	shadow[depth++].signal = signal;
}

enum kind { OTHER, CALL, RETURN, SYSCALL };

static enum kind instruction(u64 pc)
{
	u32 i = 0, here = PAGE - pc % PAGE;
	u8 code[16] = {};

	if (unwind_read(code, sizeof(code), pc) && unwind_read(code, here < 16 ? here : 16, pc))
		return OTHER;
	while (i < 12 && (memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", code[i], 11) || (code[i] & 0xf0) == 0x40))
		i++;
	if (code[i] == 0xe8 || (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2))
		return CALL;
	if (code[i] == 0xc3 || code[i] == 0xc2)
		return RETURN;
	return code[i] == 0x0f && code[i + 1] == 0x05 ? SYSCALL : OTHER;
}

/* What an instruction has done to the stack of calls. */
static void follow(enum kind kind, const struct user_regs_struct *before, const struct user_regs_struct *after)
{
	u64 word;

	if (kind == CALL && after->rsp == before->rsp - 8 && !unwind_read(&word, 8, after->rsp)) {
		push(after->rsp, word, false);
		return;
	}
	if (kind == SYSCALL && before->rax == 15) { /* rt_sigreturn */
		while (depth && !shadow[depth - 1].signal)
			depth--;
		depth -= depth > 0;
		return;
	}
	/* longjmp leaves several at once; it does not affect another stack. */
	while (depth && !shadow[depth - 1].signal && after->rsp > shadow[depth - 1].slot && before->rsp <= shadow[depth - 1].slot &&
	       after->rsp - before->rsp < 1 << 20)
		depth--;
}

/* Executed instructions, by address. */
#define EXECUTED (1 << 18)
static u64 executed[EXECUTED];
static u32 executed_count;

static bool note_executed(u64 pc)
{
	u32 at = pc * 0x9e3779b97f4a7c15ULL >> 46;

	for (; executed[at]; at = (at + 1) % EXECUTED)
		if (executed[at] == pc)
			return false;
	if (executed_count < EXECUTED / 2) {
		executed[at] = pc;
		executed_count++;
	}
	return true;
}

static void registers(struct unwind_state *state, const struct user_regs_struct *r)
{
	const u64 general[UNWIND_GENERAL] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp,
					      r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15 };

	state->pc = r->rip;
	state->sp = r->rsp;
	state->fp = r->rbp;
	state->lr = 0;
	memcpy(state->general, general, sizeof(general));
}

static u32 space, asked;

static void ask(void)
{
	asked++;
	printf("tables %d\n", child);
	if (scanf("%u", &space) != 1) {
		fprintf(stderr, "no answer\n");
		exit(2);
	}
}

static bool covered(u64 pc)
{
	struct unwind_state probe = { .space = space };

	return space && unwind_find_mapping(&probe, pc);
}

/* Reports whether the binary describes an instruction not at all, or in a way that no rule can express. */
static bool no_rule(u64 pc)
{
	struct unwind_state probe = { .space = space };
	const struct unwind_rule *rule;

	if (!unwind_find_mapping(&probe, pc))
		return true;
	rule = unwind_find_rule(&probe, pc);
	return !rule || rule->cfa == UNWIND_CFA_NONE;
}

/* Reports whether the stack leads through such an instruction, at an interruption or a call. */
static bool through_bare(u64 pc)
{
	u32 i;

	for (i = 0; i < depth; i++)
		if (no_rule(shadow[i].pc - !shadow[i].signal))
			return true;
	return no_rule(pc);
}

static bool interrupted(void)
{
	u32 i;

	for (i = 0; i < depth; i++)
		if (shadow[i].signal)
			return true;
	return false;
}

/* Appends a record for replay.c. */
static void record(FILE *to, const struct unwind_state *start, u64 top, const u64 *frames, u32 count)
{
	u64 from = start->sp - RED_ZONE;
	u32 bytes = top - from, i;
	u8 word[8];

	if (top - from > RECORD_MAX)
		return;
	fwrite(start, offsetof(struct unwind_state, bx_at), 1, to);
	fwrite(&from, 8, 1, to);
	fwrite(&bytes, 4, 1, to);
	fwrite(&count, 4, 1, to);
	for (i = 0; i < bytes; i += 8) {
		if (unwind_read(word, 8, from + i))
			fail("reading the stack");
		fwrite(word, 8, 1, to);
	}
	fwrite(frames, 8, count, to);
}

static u64 steps, wrong, bare, unknown, deepest, signals;

/* Unwinds and compares; returns whether this instruction was executed for the first time. */
static void compare(const struct user_regs_struct *r, FILE *records, u64 top, u64 from, u64 to)
{
	static u64 got[MAX_DEPTH + 1], want[MAX_DEPTH + 1];
	struct unwind_state state = {}, start;
	bool first = note_executed(r->rip);
	u32 n, i;

	registers(&state, r);
	start = state;
	n = walk(&state, space, got, MAX_DEPTH + 1);
	want[0] = r->rip;
	for (i = 0; i < depth; i++)
		want[i + 1] = shadow[depth - 1 - i].pc;
	deepest = depth > deepest ? depth : deepest;
	if (records && first && !through_bare(r->rip) && r->rip >= from && r->rip < to)
		record(records, &start, top, want, depth + 1);
	if (n == depth + 1 && !memcmp(got, want, n * 8) && state.end == UNWIND_END_ROOT)
		return;
	if (through_bare(r->rip)) {
		bare++;
		if (first)
			printf("bare %#llx\n", r->rip);
		return;
	}
	if (wrong++ < WRONG_SHOWN) {
		printf("wrong %#llx sp %#llx end %u got", r->rip, r->rsp, state.end);
		for (i = 0; i < n && i < 12; i++)
			printf(" %#lx", got[i]);
		printf(" want");
		for (i = 0; i < depth + 1 && i < 12; i++)
			printf(" %#lx", want[i]);
		printf("\n");
	}
}

/* The bounds of the program's own file, by its first mapping's name. */
static void bounds(const char *program, u64 *from, u64 *to)
{
	char path[64], line[4096];
	FILE *maps;
	u64 a, b;

	snprintf(path, sizeof(path), "/proc/%d/maps", child);
	maps = fopen(path, "re");
	if (!maps)
		fail(path);
	*from = ~0ULL;
	*to = 0;
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, program) || sscanf(line, "%lx-%lx", &a, &b) != 2)
			continue;
		*from = a < *from ? a : *from;
		*to = b > *to ? b : *to;
	}
	fclose(maps);
}

int main(int argc, char **argv)
{
	u64 max, every, since = 0, ready = 0, restorer = 0, from, to, top;
	struct user_regs_struct r, before;
	int status, deliver = 0;
	FILE *records = 0;

	if (argc < 6)
		return 2;
	setvbuf(stdout, 0, _IOLBF, 0);
	open_tables(argv[1]);
	max = strtoull(argv[2], 0, 10);
	every = strtoull(argv[3], 0, 10);
	if (strcmp(argv[4], "-") && !(records = fopen(argv[4], "we")))
		fail(argv[4]);
	child = fork();
	if (!child) {
		personality(ADDR_NO_RANDOMIZE);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		if (!freopen("/dev/null", "we", stdout))
			_exit(126);
		execv(argv[5], argv + 5);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		fail("starting the program");
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL);
	bounds(strrchr(argv[5], '/'), &from, &to);
	ptrace(PTRACE_GETREGS, child, 0, &r);
	printf("base %#lx\n", from);
	top = r.rsp + 64; /* and what the walk may read above the first frame */
	for (; steps < max; steps++) {
		enum kind kind;

		if (!covered(r.rip) && asked < 64)
			ask();
		if (covered(r.rip))
			compare(&r, records, top, from, to);
		else
			unknown++;
		kind = instruction(r.rip);
		before = r;
		if (every && ready && !deliver && kind != SYSCALL && r.rip >= from && r.rip < to && !interrupted() && ++since == every) {
			since = 0;
			deliver = SIGUSR1;
		}
		if (ptrace(PTRACE_SINGLESTEP, child, 0, deliver))
			fail("stepping");
		if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
			break;
		moment++;
		ptrace(PTRACE_GETREGS, child, 0, &r);
		if (deliver) { /* the first instruction of the handler, or the next one when it is ignored or blocked */
			u64 ret;

			deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
			if (!unwind_read(&ret, 8, r.rsp) && before.rsp - r.rsp > 256 && (ret == restorer || !restorer)) {
				restorer = ret;
				signals++;
				push(0, before.rip, true);
				push(r.rsp, ret, false);
				continue;
			}
		}
		if (WSTOPSIG(status) != SIGTRAP) {
			deliver = WSTOPSIG(status);
			ready |= deliver == SIGUSR1;
		}
		follow(kind, &before, &r);
	}
	if (WIFSTOPPED(status))
		kill(child, SIGKILL);
	else
		printf("status %d\n", status);
	if (records && fclose(records))
		fail("writing the records");
	for (u32 i = 0; i < EXECUTED; i++)
		if (executed[i])
			printf("executed %#lx\n", executed[i]);
	printf("end %lu %lu %lu %lu %lu %lu\n", steps, wrong, bare, unknown, deepest, signals);
	return 0;
}
