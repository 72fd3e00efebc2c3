// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * host CAPTURE_BYTES PROTOCOLS: reads transfers of connections from standard input and writes what the BPF programs report of
 * them to standard output. PROTOCOLS has a bit for each of enum network_protocol.
 *
 * Input: a byte shows what follows.
 *   b ROLE: a connection begins; a byte of enum network_role.
 *   t KIND BYTES COUNT (LENGTH DATA)...: a transfer; KIND is a byte, the rest are numbers of 32 bits, little-endian. BYTES were transferred; of
 *     them COUNT buffers have LENGTH each.
 *   e: the connection ends.
 * Output: for each step of the input, its records, each as its size in 32 bits and its bytes, then a size of 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned char __u8;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#include "bpf/bpf_helpers.h"
#include "capture.h"

__u32 host_capture_bytes, host_protocols;

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_SK_STORAGE = 24, MAP_TASK_STORAGE = 29 };
/* include/uapi/asm-generic/errno-base.h */
enum { NO_ENTRY = 2, BAD_ADDRESS = 14, NO_SPACE = 28 };

/* Entries of one map. Hashes whose size the loader sets are declared with 1. */
struct entry {
	struct entry *next;
	void *key, *value;
};

struct table {
	struct host_map map;
	struct entry *first;
	unsigned used;
};

static struct table tables[64];

static void fail(const char *what)
{
	fprintf(stderr, "host: %s\n", what);
	exit(2);
}

static void *zeroed(size_t bytes)
{
	void *at = calloc(1, bytes ? bytes : 1);

	if (!at)
		fail("out of memory");
	return at;
}

static struct table *table_of(struct host_map map)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (!tables[i].map.map)
			tables[i].map = map;
		if (tables[i].map.map == map.map)
			return &tables[i];
	}
	fail("too many maps");
	return 0;
}

static struct entry **find(struct table *t, const void *key)
{
	struct entry **at = &t->first;

	while (*at && memcmp((*at)->key, key, t->map.key_bytes))
		at = &(*at)->next;
	return at;
}

static struct entry *add(struct table *t, const void *key)
{
	struct entry *e = zeroed(sizeof(*e));

	e->key = zeroed(t->map.key_bytes);
	e->value = zeroed(t->map.value_bytes);
	memcpy(e->key, key, t->map.key_bytes);
	e->next = t->first;
	t->first = e;
	t->used++;
	return e;
}

void *host_lookup(struct host_map map, const void *key)
{
	struct table *t = table_of(map);
	struct entry *e = *find(t, key);

	if (!e && (map.type == MAP_ARRAY || map.type == MAP_PERCPU_ARRAY) && *(const __u32 *)key < map.entries)
		e = add(t, key);
	return e ? e->value : 0;
}

long host_update(struct host_map map, const void *key, const void *value, __u64 flags)
{
	struct table *t = table_of(map);
	struct entry *e = *find(t, key);

	(void)flags;
	if (!e && t->used >= 4096)
		return -NO_SPACE;
	if (!e)
		e = add(t, key);
	memcpy(e->value, value, map.value_bytes);
	return 0;
}

long host_delete(struct host_map map, const void *key)
{
	struct table *t = table_of(map);
	struct entry **at = find(t, key), *e = *at;

	if (!e)
		return -NO_ENTRY;
	*at = e->next;
	t->used--;
	free(e->key);
	free(e->value);
	free(e);
	return 0;
}

void *host_storage(struct host_map map, const void *owner, __u64 flags)
{
	void *value = 0;

	if (map.type != MAP_SK_STORAGE && map.type != MAP_TASK_STORAGE)
		fail("storage in a map of another type");
	map.key_bytes = sizeof(owner);
	value = host_lookup(map, &owner);
	if (!value && flags & 1)
		value = add(table_of(map), &owner)->value;
	return value;
}

/* The memory of the current transfer: its buffers, and the list of them. */
static struct host_transfer at_hand;

static int within(const char *from, __u32 size, const char *base, size_t bytes)
{
	return base && from >= base && from + size <= base + bytes;
}

/* As the kernel does, a read that fails leaves zeros. */
static long read_memory(void *to, __u32 size, const void *from)
{
	for (unsigned long i = 0; i < at_hand.count; i++) {
		if (within(from, size, at_hand.pieces[i].base, at_hand.pieces[i].bytes) ||
		    within(from, size, (const char *)at_hand.pieces, at_hand.count * sizeof(at_hand.pieces[0]))) {
			memcpy(to, from, size);
			return 0;
		}
	}
	memset(to, 0, size);
	return -BAD_ADDRESS;
}

long bpf_probe_read_user(void *to, __u32 size, const void *from) { return read_memory(to, size, from); }
long bpf_probe_read_kernel(void *to, __u32 size, const void *from) { return read_memory(to, size, from); }

long bpf_probe_read_user_str(void *to, __u32 size, const void *from)
{
	(void)from;
	memset(to, 0, size);
	return -BAD_ADDRESS;
}

long bpf_probe_read_kernel_str(void *to, __u32 size, const void *from) { return bpf_probe_read_user_str(to, size, from); }

static __u64 now = 1000;

__u64 bpf_ktime_get_ns(void) { return now++; }

/* Numbers that repeat from run to run (xorshift). */
__u32 bpf_get_prandom_u32(void)
{
	static __u32 state = 2463534242;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

__u64 bpf_get_current_pid_tgid(void) { return 1; }
__u32 bpf_get_smp_processor_id(void) { return 0; }

/* A task whose fields are all 0. */
static char task[1 << 16];

__u64 bpf_get_current_task(void) { return (__u64)(unsigned long)task; }
struct task_struct *bpf_get_current_task_btf(void) { return (struct task_struct *)task; }

long bpf_task_pt_regs(struct task_struct *of)
{
	(void)of;
	return (long)task;
}

long bpf_get_current_comm(void *to, __u32 size)
{
	memset(to, 0, size);
	return 0;
}

long bpf_loop(__u32 times, void *call, void *with, __u64 flags)
{
	long (*each)(__u64, void *) = (long (*)(__u64, void *))call;
	__u32 i;

	(void)flags;
	for (i = 0; i < times; i++) {
		if (each(i, with))
			return i + 1;
	}
	return i;
}

static void write_all(const void *data, size_t size)
{
	if (fwrite(data, 1, size, stdout) != size)
		fail("writing a record");
}

long host_output(const void *ring, const void *data, __u64 size)
{
	__u32 bytes = size;

	(void)ring;
	if (size < capture_host_head_bytes)
		fail("a record without its head");
	write_all(&bytes, sizeof(bytes));
	write_all(data, size);
	return 0;
}

static int read_all(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }

static __u32 number(void)
{
	__u32 n;

	if (!read_all(&n, sizeof(n)))
		fail("the input ends within a step");
	return n;
}

static void transfer(void)
{
	struct host_memory *pieces;
	__u8 kind;

	if (!read_all(&kind, 1))
		fail("the input ends within a step");
	at_hand = (struct host_transfer){ .kind = kind & 1, .bytes = number(), .count = number() };
	if (!at_hand.count || at_hand.count > 1024)
		fail("a transfer has 1 to 1024 buffers");
	pieces = zeroed(at_hand.count * sizeof(*pieces));
	for (unsigned long i = 0; i < at_hand.count; i++) {
		pieces[i].bytes = number();
		pieces[i].base = zeroed(pieces[i].bytes); /* of just that size, so that sanitizers see what reads beyond it */
		if (!read_all((void *)pieces[i].base, pieces[i].bytes))
			fail("the input ends within a step");
	}
	at_hand.pieces = pieces;
	at_hand.began = bpf_ktime_get_ns();
	at_hand.ended = bpf_ktime_get_ns();
	capture_host_transfer(&at_hand);
	for (unsigned long i = 0; i < at_hand.count; i++)
		free((void *)pieces[i].base);
	free(pieces);
	at_hand = (struct host_transfer){};
}

int main(int argc, char **argv)
{
	const __u32 end = 0;
	__u8 step, role;

	if (argc != 3)
		fail("usage: host CAPTURE_BYTES PROTOCOLS");
	host_capture_bytes = strtoul(argv[1], 0, 10);
	host_protocols = strtoul(argv[2], 0, 10);
	while (read_all(&step, 1)) {
		switch (step) {
		case 'b':
			if (!read_all(&role, 1))
				fail("the input ends within a step");
			capture_host_begin(role);
			break;
		case 't':
			transfer();
			break;
		case 'e':
			capture_host_end();
			break;
		default:
			fail("unknown step");
		}
		write_all(&end, sizeof(end));
		fflush(stdout);
	}
	return 0;
}
