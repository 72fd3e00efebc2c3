// SPDX-License-Identifier: Apache-2.0
// cflags: -O1 -fno-omit-frame-pointer -pthread
//
// outlives: the main thread ends at the first byte of input, another thread waits until the process is killed.
#include <pthread.h>
#include <unistd.h>

static void *outlive(void *none)
{
	for (;;)
		pause();
	return none;
}

int main(void)
{
	pthread_t thread;
	char c;

	if (pthread_create(&thread, NULL, outlive, NULL) || read(0, &c, 1) != 1)
		return 1;
	pthread_exit(NULL);
}
