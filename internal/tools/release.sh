#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs archives of the built Collectors, and their checksums.
#   release.sh VERSION BINARIES OUTPUT ARCHITECTURE...
# BINARIES has the programs as NAME-ARCHITECTURE. Equal files make equal archives.
set -euo pipefail

version=$1
binaries=$2
output=$3
shift 3

rm -rf "$output"
mkdir -p "$output"

# A variant's program has the same name in each archive, so that the unit and the commands of the documentation fit both.
pack() { # VARIANT NAME ARCHITECTURE
  local name="$2_${version}_linux_$3" folder
  folder="$output/$name"
  mkdir -p "$folder"
  install -m 755 "$binaries/$1-$3" "$folder/otelcol-ebpf"
  install -m 755 "$binaries/ebpf-top-$3" "$folder/ebpf-top"
  install -m 644 docs/examples/config.yaml docs/examples/systemd/otelcol-ebpf.service LICENSE NOTICE "$folder"
  tar -C "$output" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --format=gnu -c "$name" | gzip -n -6 >"$folder.tar.gz"
  rm -r "$folder"
  echo "make: $folder.tar.gz ($(($(stat -c %s "$folder.tar.gz") / 1000000)) MB)"
}

for architecture in "$@"; do
  pack full otelcol-ebpf "$architecture"
  pack slim otelcol-ebpf-slim "$architecture"
done
cd "$output"
sha256sum -- *.tar.gz >SHA256SUMS
echo "make: $output/SHA256SUMS"
