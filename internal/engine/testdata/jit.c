// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer -fno-reorder-functions
//
// jit MILLISECONDS FORMAT: makes code while it runs and announces it in a perf map (map) or a jitdump (dump), as it
// goes. The code is copies of three functions that keep a frame pointer, the only code here that does:
//
//	jit_outer calls jit_hot for 70 % of the CPU time and jit_cold for 30 %; after half of the time all three are put
//	to a new place, and announced as jit_outer_again and so on.
//
// Prints the nanoseconds of hot and cold before and after the change. With an argument more, a line of input makes the change, and the next one
// ends the program.
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CYCLE 16180340L /* ns, as seventy.c */
#define PLACE 4096L     /* bytes that each function is given */
#define FRAME __attribute__((noinline, noclone, section("jitcode"), optimize("no-omit-frame-pointer")))

typedef long (*leaf_fn)(long);
typedef long (*outer_fn)(leaf_fn, long);

/* Each is moved as a whole, so they call nothing but what they are given. */
FRAME static long hot_code(long n)
{
	for (volatile long i = 0; i < n; i++)
		;
	return n;
}

FRAME static long cold_code(long n)
{
	for (volatile long i = 0; i < n; i++)
		;
	return n + 1;
}

FRAME static long outer_code(leaf_fn leaf, long n)
{
	volatile long sum = leaf(n);

	return sum + 1;
}

extern char __start_jitcode[], __stop_jitcode[];

static char *memory;
static FILE *told;
static int dump, change_by_input;

static long used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void put(uint64_t value, int bytes) { fwrite(&value, bytes, 1, told); }

/* The specification is tools/perf/Documentation/jitdump-specification.txt of Linux. */
static void record(uint32_t id, uint32_t size)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	put(id, 4);
	put(16 + size, 4);
	put(t.tv_sec * 1000000000L + t.tv_nsec, 8);
}

static void begin(void)
{
	char path[64];

	snprintf(path, sizeof(path), dump ? "jit-%d.dump" : "/tmp/perf-%d.map", getpid());
	told = fopen(path, "w+");
	if (!told)
		exit(3);
	setvbuf(told, 0, _IOFBF, 4096);
	if (!dump)
		return;
	put(0x4A695444, 4);
	put(1, 4);
	put(40, 4);
	put(EM_X86_64, 4);
	put(0, 4);
	put(getpid(), 4);
	put(used(), 8);
	put(0, 8);
	fflush(told);
	if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(told), 0) == MAP_FAILED)
		exit(4);
}

static void tell(const char *code, const char *name)
{
	if (!dump) {
		fprintf(told, "%lx %lx %s\n", (unsigned long)code, PLACE, name);
		fflush(told);
		return;
	}
	record(2, 16 + 16 + 6); /* one line for the whole */
	put((uint64_t)code, 8);
	put(1, 8);
	put((uint64_t)code, 8);
	put(4711, 4);
	put(0, 4);
	fwrite("jit.c", 6, 1, told);
	record(0, 40 + strlen(name) + 1 + PLACE);
	put(getpid(), 4);
	put(getpid(), 4);
	put((uint64_t)code, 8);
	put((uint64_t)code, 8);
	put(PLACE, 8);
	put(0, 8);
	fwrite(name, strlen(name) + 1, 1, told);
	fwrite(code, PLACE, 1, told);
	fflush(told);
}

/* Puts a function to its place in memory. */
static char *compile(int place, const void *function, const char *name)
{
	char *to = memory + place * PLACE;
	long size = __stop_jitcode - (const char *)function;

	if (size > PLACE)
		size = PLACE;
	memcpy(to, function, size);
	__builtin___clear_cache(to, to + PLACE);
	tell(to, name);
	return to;
}

static int over(long now, long until)
{
	struct pollfd input = { 0, POLLIN };
	char c;

	return change_by_input ? poll(&input, 1, 0) && read(0, &c, 1) : now >= until;
}

__attribute__((noinline)) static void work(int place, const char *names[3], long until, long spent[2])
{
	outer_fn outer = (outer_fn)compile(place, outer_code, names[0]);
	leaf_fn leaf[2] = { (leaf_fn)compile(place + 1, hot_code, names[1]), (leaf_fn)compile(place + 2, cold_code, names[2]) };
	long now;

	for (long before = used(); !over(before, until); before = now) {
		int turn = before % CYCLE >= CYCLE / 10 * 7;

		outer(leaf[turn], 200000);
		now = used();
		spent[turn] += now - before;
	}
}

int main(int argc, char **argv)
{
	const char *first[] = { "jit_outer", "jit_hot", "jit_cold" };
	const char *again[] = { "jit_outer_again", "jit_hot_again", "jit_cold_again" };
	long total, spent[4] = { 0 };

	if (argc != 3 && argc != 4)
		return 2;
	change_by_input = argc == 4;
	total = atol(argv[1]) * 1000000L;
	dump = !strcmp(argv[2], "dump");
	memory = mmap(0, 6 * PLACE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 5;
	begin();
	work(0, first, total / 2, spent);
	work(3, again, total, spent + 2);
	printf("%ld %ld %ld %ld\n", spent[0], spent[1], spent[2], spent[3]);
	return 0;
}
