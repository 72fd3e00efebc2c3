/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * kinds TABLES SPACE ADDRESS...: looks up for each address, one after the other, its
 * rule and then the kind of its code. For each it prints the kind, and whether
 * there is a rule.
 */
#include "hosted.h"

static long unwind_read(void *to, u32 size, u64 from)
{
	(void)to;
	(void)size;
	(void)from;
	return -14; /* EFAULT */
}

int main(int argc, char **argv)
{
	struct unwind_state state;

	if (argc < 3)
		return 2;
	open_tables(argv[1]);
	memset(&state, 0, sizeof(state));
	unwind_begin(&state, strtoul(argv[2], 0, 10));
	state.serial = unwind_serial(&state);
	for (int i = 3; i < argc; i++) {
		u64 pc = strtoul(argv[i], 0, 10);
		const struct unwind_rule *rule = unwind_rule_at(&state, pc);
		bool found = rule && rule->cfa != UNWIND_CFA_NONE;

		printf("%u %s\n", unwind_kind_at(&state, pc), found ? "true" : "false");
	}
	return 0;
}
