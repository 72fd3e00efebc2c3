// SPDX-License-Identifier: Apache-2.0
// cflags: -O1
// Looks a name up as often as each line of its input says ("NAME TIMES") by the C library's resolver, and prints how often there was an
// address.
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(void)
{
	char name[256];
	int times;

	puts("ready");
	fflush(stdout);
	while (scanf("%255s %d", name, &times) == 2) {
		struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
		int there = 0;

		for (int i = 0; i < times; i++) {
			if (getaddrinfo(name, NULL, &hints, &found) == 0) {
				there++;
				freeaddrinfo(found);
			}
		}
		printf("%d\n", there);
		fflush(stdout);
	}
	return 0;
}
