#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generates anew and compares with what was there: in a clean checkout that is what is committed.
set -euo pipefail

# Files that generators write, committed or not yet, with their checksums.
snapshot() {
  git ls-files -co --exclude-standard -- bpf receiver |
    sort -u | while read -r file; do [ ! -f "$file" ] || sha256sum "$file"; done
}

mkdir -p _build
snapshot >_build/generated.before
make generate
snapshot >_build/generated.after
if ! diff -u _build/generated.before _build/generated.after; then
  git --no-pager diff --stat -- bpf receiver || true
  echo "make: generated files differ from their sources: run make generate and commit the result" >&2
  exit 1
fi
echo "make: generated files are what their sources yield"
