#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generates anew in a copy and compares, so that tests may run on the checkout meanwhile: in a clean one that is what is committed.
set -euo pipefail

copy=_build/generated
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -co --exclude-standard | tar -c --ignore-failed-read -T - | tar -x -C "$copy"
mkdir -p "$copy/_build"
cp -r _build/tools "$copy/_build/"
make -C "$copy" generate

status=0
for folder in bpf receiver docs/reference cmd/otelcol-ebpf-quick; do
  diff -ru "$folder" "$copy/$folder" || status=1
done
if [ "$status" != 0 ]; then
  echo "make: generated files differ from their sources: run make generate and commit the result" >&2
  exit 1
fi
rm -rf "$copy"
echo "make: generated files are what their sources yield"
