#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the programs of this folder, and next to each what llvm-symbolizer says of all addresses of its code.
set -eu
cd "$(dirname "$0")"
src=$(cd .. && pwd)
common="-O2 -nostdlib -fno-pie -no-pie -fno-asynchronous-unwind-tables -ffile-prefix-map=$src=/src -ffile-prefix-map=$PWD=/build -Wl,--unresolved-symbols=ignore-all -Wl,--build-id=sha1"
gcc $common -gdwarf-2 -gstrict-dwarf -o gcc-dwarf2 ../plain.c
gcc $common -gdwarf-4 -o gcc-dwarf4 ../plain.c
gcc $common -gdwarf-5 -gdwarf64 -o gcc-dwarf5-64 ../plain.c
clang-19 $common -gdwarf-3 -o clang-dwarf3 ../plain.c
clang-19 $common -gdwarf-5 -o clang-dwarf5 ../plain.c
clang-19 $common -gdwarf-5 -gsplit-dwarf -fno-split-dwarf-inlining -o clang-split5 ../plain.c
llvm-dwp-19 -o clang-split5.dwp clang-split5-plain.dwo 2>/dev/null || llvm-dwp-19 -o clang-split5.dwp ./*.dwo
clang-19 $common -gdwarf-5 -gz=zstd -o clang-zstd ../plain.c
gcc $common -gdwarf-4 -gz=zlib -o gcc-zlib ../plain.c
for p in gcc-dwarf2 gcc-dwarf4 gcc-dwarf5-64 clang-dwarf3 clang-dwarf5 clang-split5 clang-zstd gcc-zlib; do
	objcopy --remove-section .comment "$p" 2>/dev/null || true
	start=$(objdump -h "$p" | awk '$2==".text"{print "0x"$4}')
	size=$(objdump -h "$p" | awk '$2==".text"{print "0x"$3}')
	i=0
	while [ $i -lt $((size)) ]; do
		printf '0x%x\n' $((start + i))
		i=$((i + 3))
	done | llvm-symbolizer-19 -e "$p" -f -i -a --output-style=GNU --no-demangle > "$p.lines"
done
rm -f ./*.dwo
