// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -g -fno-builtin -fno-optimize-sibling-calls -fomit-frame-pointer
// Allocates by each function of the malloc family and prints what it asked for: for each of its functions a line of name,
// calls, bytes, objects in use, bytes in use. Waits for a line of input before it starts, between its steps and at the end:
// warm up; allocate and free every second one; free the others.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define N 200
#define S 3000

void *_Znwm(size_t) __attribute__((weak));
void *_Znam(size_t) __attribute__((weak));
void _ZdlPv(void *) __attribute__((weak));
void *reallocarray(void *, size_t, size_t) __attribute__((weak));
void *pvalloc(size_t) __attribute__((weak));
void *valloc(size_t) __attribute__((weak));

static void *by_posix_memalign(size_t alignment)
{
	void *p = 0;
	return posix_memalign(&p, alignment, S) ? 0 : p;
}

#define ALLOCATE(name, expression)                                \
	__attribute__((noinline)) static void *name(void)         \
	{                                                         \
		void *volatile p = expression;                    \
		return p;                                         \
	}

ALLOCATE(use_malloc, malloc(S))
ALLOCATE(use_calloc, calloc(3, 1000))
ALLOCATE(use_realloc_null, realloc(NULL, S))
ALLOCATE(use_realloc_grow, realloc(malloc(1000), 2000))
ALLOCATE(use_reallocarray, reallocarray(NULL, 3, 1000))
ALLOCATE(use_memalign16, memalign(16, S))
ALLOCATE(use_memalign256, memalign(256, S))
ALLOCATE(use_aligned_alloc, aligned_alloc(16, S))
ALLOCATE(use_posix_memalign16, by_posix_memalign(16))
ALLOCATE(use_posix_memalign4096, by_posix_memalign(4096))
ALLOCATE(use_valloc, valloc(S))
ALLOCATE(use_pvalloc, pvalloc(S))
ALLOCATE(use_new, _Znwm(S))
ALLOCATE(use_new_array, _Znam(S))

/* What realloc cannot grow stays in use. */
__attribute__((noinline)) static void *grow_too_far(void)
{
	void *volatile p = malloc(S), *volatile q = realloc(p, (size_t)1 << 42);
	return q ? q : p;
}

/* As programs have one of their own: all calls are from the same place, at different depths. */
__attribute__((noipa)) static void *use_wrapper(size_t size)
{
	void *volatile p = calloc(1, size);
	return p;
}

__attribute__((noinline)) static void *deeper(size_t size)
{
	void *volatile room[8] = { use_wrapper(size) };
	return room[size & 0];
}

__attribute__((noinline)) static void *wrapped(void)
{
	free(use_wrapper(S));
	return deeper(S);
}

struct use {
	const char *name;
	void *(*allocate)(void);
	void *there;       /* the function, 0 where the library has none */
	long calls, bytes; /* of one call of allocate */
	long objects, kept;
	void (*release)(void *);
};

static struct use uses[] = {
#define USE(name, function, calls, bytes, kept) { #name, name, (void *)function, calls, bytes, 1, kept, free }
	USE(use_malloc, malloc, 1, S, S),
	USE(use_calloc, calloc, 1, S, S),
	{ "use_wrapper", wrapped, (void *)calloc, 2, 2 * S, 1, S, free },
	USE(use_realloc_null, realloc, 1, S, S),
	USE(use_realloc_grow, realloc, 2, 3000, 2000),
	USE(use_reallocarray, reallocarray, 1, S, S),
	USE(use_memalign16, memalign, 1, S, S),
	USE(use_memalign256, memalign, 1, S, S),
	USE(use_aligned_alloc, aligned_alloc, 1, S, S),
	USE(use_posix_memalign16, posix_memalign, 1, S, S),
	USE(use_posix_memalign4096, posix_memalign, 1, S, S),
	USE(use_valloc, valloc, 1, S, S),
	USE(use_pvalloc, pvalloc, 1, S, S),
	USE(grow_too_far, realloc, 2, S + (1L << 42), S),
	USE(use_new, _Znwm, 1, S, S),
	USE(use_new_array, _Znam, 1, S, S),
};
#define USES (sizeof(uses) / sizeof(uses[0]))

static void *kept[USES][N];

static void await(void)
{
	char c;
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

int main(void)
{
	static char out[1 << 16];
	struct rlimit limit = { 64L << 30, 64L << 30 };
	setrlimit(RLIMIT_AS, &limit); /* what is too far is so everywhere */
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	for (size_t u = 0; u < USES; u++)
		if (!uses[u].release || uses[u].there == (void *)_Znwm || uses[u].there == (void *)_Znam)
			uses[u].release = _ZdlPv ? _ZdlPv : free;
	await();
	for (int i = 0; i < 20; i++) {
		free(malloc(100));
		usleep(1000);
	}
	printf("warm 0 0 0 0\n");
	fflush(stdout);
	await();
	for (size_t u = 0; u < USES; u++) {
		if (!uses[u].there || (uses[u].there == (void *)pvalloc && getenv("NO_PVALLOC")))
			continue; /* jemalloc has no pvalloc and cannot free that of the C library */
		for (int i = 0; i < N; i++)
			kept[u][i] = uses[u].allocate();
		for (int i = 0; i < N; i += 2) {
			uses[u].release(kept[u][i]);
			kept[u][i] = 0;
		}
		printf("%s %ld %ld %ld %ld\n", uses[u].name, N * uses[u].calls, N * uses[u].bytes, N / 2 * uses[u].objects, N / 2 * uses[u].kept);
	}
	printf("done 0 0 0 0\n");
	fflush(stdout);
	await();
	for (size_t u = 0; u < USES; u++)
		for (int i = 0; i < N; i++)
			if (kept[u][i])
				uses[u].release(kept[u][i]);
	printf("freed 0 0 0 0\n");
	fflush(stdout);
	await();
	return 0;
}
