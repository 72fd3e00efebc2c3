/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reads names from the environment of a program when its exec ends: the process may exit before user space
 * can read /proc/PID/environ. The kernel has just written the pages, so they are in memory.
 */
#ifndef EBPFRECEIVER_PROCESS_ENVIRONMENT_H
#define EBPFRECEIVER_PROCESS_ENVIRONMENT_H

#include "process.h"
#include "process_executable.h"

enum {
	/* The size of the ring buffer process_events (process.h). */
	PROCESS_EVENTS_BYTES = 256 * 1024,
	/*
	 * Segments of the environment that are searched. A variable of up to 1,022 bytes is one; 300
	 * variables of 100 KiB are searched completely. The bound limits the duration of exec.
	 */
	ENVIRONMENT_PIECES = 512,
	ENVIRONMENT_PIECE = 1024,
	/* Maximum length of OTEL_SERVICE_NAME=… and OTEL_RESOURCE_ATTRIBUTES=…, with the NUL. */
	ENVIRONMENT_NAME = 256,
	ENVIRONMENT_ATTRIBUTES = 1024,
	/* Maximum length of the text, and the size of the buffer that the verifier requires for it. */
	PROCESS_EXEC_TEXT = 2 * EXECUTABLE_PATH + 4 * EXECUTABLE_ARGUMENTS + ENVIRONMENT_NAME + ENVIRONMENT_ATTRIBUTES,
};

/*
 * Record of the ring buffer process_events for an exec, as long as its text. It begins with struct
 * process_event, which is all that some readers need.
 */
struct process_exec {
	struct process_event event;
	u32 whole;     /* 1: no variable was left out; text has those of the two that are set */
	u16 path;      /* bytes of text that are the path of the executable; 0: it was too long */
	u16 arguments; /* bytes of text after them that are arguments; EXECUTABLE_ARGUMENTS: there may be more */
	/* Names of the path, the last one first; arguments; NAME=VALUE of the environment. Each has a NUL. */
	char text[PROCESS_EXEC_TEXT];
};

/* The members of struct mm_struct that are read here. */
struct mm_struct___environment {
	unsigned long env_start;
	unsigned long env_end;
} __attribute__((preserve_access_index));

/*
 * Progress of a search of the environment. It is in memory rather than in registers, so that the verifier
 * merges the rounds of the loop.
 */
struct environment_search {
	u64 at, end;
	u64 name, attributes; /* addresses of the two variables in the process; 0: not found */
	u32 inside;           /* of a variable that is longer than a segment */
	u32 unused;
	u64 segment[ENVIRONMENT_PIECE / sizeof(u64)];
};

struct exec_scratch {
	struct environment_search search;
	struct executable_walk walk;
	struct process_exec exec;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct exec_scratch);
} process_exec_scratch SEC(".maps");

/* Eight characters in memory order; both architectures are little-endian. */
#define CHARACTER(text, i) ((u64)(u8)(text)[i] << 8 * (i))
#define WORD(text)                                                                                                                \
	(CHARACTER(text, 0) | CHARACTER(text, 1) | CHARACTER(text, 2) | CHARACTER(text, 3) | CHARACTER(text, 4) | CHARACTER(text, 5) | \
	 CHARACTER(text, 6) | CHARACTER(text, 7))

/* Records the address of a variable: the first one with its name, as getenv(3) does. */
static __always_inline void environment_note(struct environment_search *search)
{
	const u64 *segment = search->segment;

	if (segment[0] == WORD("OTEL_SER") && segment[1] == WORD("VICE_NAM") && (u16)segment[2] == (u16)WORD("E=      ")) {
		if (!search->name)
			search->name = search->at;
	} else if (segment[0] == WORD("OTEL_RES") && segment[1] == WORD("OURCE_AT") && segment[2] == WORD("TRIBUTES") && (u8)segment[3] == '=') {
		if (!search->attributes)
			search->attributes = search->at;
	}
}

/* Reports whether no variable was missed: both were found, or the whole environment was searched. */
static __always_inline bool environment_searched(const struct environment_search *search)
{
	return search->at >= search->end || (search->name && search->attributes);
}

/*
 * Searches the next segment in the running CPU's scratch; 0 at the end of the search. It is a global
 * function, which the verifier checks once instead of once per segment.
 */
__noinline int environment_next(void)
{
	struct environment_search *search;
	struct exec_scratch *scratch;
	u32 zero = 0;
	long length;

	scratch = bpf_map_lookup_elem(&process_exec_scratch, &zero);
	if (!scratch)
		return 0;
	search = &scratch->search;
	if (environment_searched(search))
		return 0;
	length = bpf_probe_read_user_str(search->segment, sizeof(search->segment), (void *)search->at);
	if (length < 0)
		return 0;
	if (!length)
		length = 1; /* an empty string, of which Linux 5.10 does not count the NUL */
	if (!search->inside)
		environment_note(search);
	search->inside = length == sizeof(search->segment);
	search->at += search->inside ? length - 1 : length;
	return 1;
}

/* Finds the variables in the environment of a task's program; false if one may have been missed. */
static __always_inline bool environment_find(struct task_struct *task, struct environment_search *search)
{
	struct mm_struct___environment *mm = (void *)BPF_CORE_READ(task, mm);

	search->at = BPF_CORE_READ(mm, env_start);
	search->end = BPF_CORE_READ(mm, env_end);
	search->name = search->attributes = search->inside = 0;
	for (u32 i = 0; i < ENVIRONMENT_PIECES; i++)
		if (!environment_next())
			break;
	return environment_searched(search);
}

/* Appends a variable if it has at most size - 1 bytes. size is a power of two. */
static __always_inline u64 environment_append(struct process_exec *exec, u64 used, u64 at, u32 size)
{
	long length;

	if (!at)
		return 0;
	length = bpf_probe_read_user_str(exec->text + used, size, (void *)at);
	if (length <= 0 || length >= size) {
		exec->whole = 0;
		return 0;
	}
	barrier_var(length); /* the verifier of Linux 5.10 needs the bound in the register that is used */
	return length & (size - 1);
}

#endif
