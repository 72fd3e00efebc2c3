// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer -fno-optimize-sibling-calls
//
// many MILLISECONDS: works without frame pointers, in a binary with 40,000 functions more, for which unwind tables are made, too.
#include <stdlib.h>

#include "burn.h"

__asm__(".text\n"
	".rept 40000\n"
	".cfi_startproc\n"
	"nop\nnop\nnop\nnop\n"
	".cfi_adjust_cfa_offset 8\n"
	"nop\nnop\nnop\nnop\n"
	".cfi_adjust_cfa_offset -8\n"
	"nop\nnop\nnop\nnop\n"
	".cfi_endproc\n"
	".endr\n");

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	burn(atol(argv[1]));
	return 0;
}
