// SPDX-License-Identifier: Apache-2.0
int printf(const char *, ...);
int atoi(const char *);
static inline unsigned step(unsigned x)
{
	return x * 2654435761u;
}
static inline unsigned twice(unsigned x)
{
	unsigned y = step(x);
	return step(y ^ 7) + y;
}
__attribute__((noinline)) static unsigned outer(unsigned n, const unsigned *table)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned part = table[i & 3];
		if (part & 1) {
			sum += twice(part);
		} else {
			switch (part & 14) {
			case 2: sum ^= step(part); break;
			case 4: sum += 9; break;
			case 6: sum -= twice(sum); break;
			case 8: sum *= 3; break;
			default: sum++;
			}
		}
	}
	return sum;
}
int main(int argc, char **argv)
{
	unsigned table[4] = { (unsigned)argc, 7, 8, (unsigned)atoi(argv[0]) };
	printf("%u\n", outer(1000, table) + twice((unsigned)argc));
	return 0;
}
