// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer
// Prints, for main and for a thread, the callers that libgcc's unwinder finds, innermost first: the thread's name, the file
// and the address in the file, less one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>

static void print(const char *thread)
{
	void *addresses[64];
	int n = backtrace(addresses, 64);

	for (int i = 0; i < n; i++) {
		struct link_map *map;
		Dl_info info;

		if (dladdr1(addresses[i], &info, (void **)&map, RTLD_DL_LINKMAP))
			printf("%s %s %lx\n", thread, info.dli_fname, (unsigned long)addresses[i] - 1 - map->l_addr);
	}
}

static void *run(void *arg)
{
	print("thread");
	return arg;
}

int main(void)
{
	pthread_t thread;

	print("main");
	fflush(stdout);
	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
