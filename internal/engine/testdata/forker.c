// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer -fno-optimize-sibling-calls
//
// forker MILLISECONDS-BEFORE CHILDREN MILLISECONDS-EACH: works, so as to be met, then starts one child after the other that works without
// frame pointers.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	burn(atol(argv[1]));
	for (int i = atoi(argv[2]); i; i--) {
		if (fork()) {
			wait(0);
			continue;
		}
		burn(atol(argv[3]));
		_exit(0);
	}
	return 0;
}
