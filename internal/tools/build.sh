#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds Go programs and reports how many of their packages are compiled, every 10 s, on a terminal every second in place.
#   build.sh WHAT FOLDER OUTPUT PACKAGE...
# FOLDER has the go.mod. OUTPUT is a file for one package, a folder for several. GO_BUILD_FLAGS are further flags.
set -euo pipefail

what=$1
folder=$2
output=$3
shift 3
read -r -a flags <<<"${GO_BUILD_FLAGS:-}"
go=${GO:-go}
start=$SECONDS

# Reads what go prints about its work: shows the modules that are downloaded and the packages that are compiled as
# numbers, and everything else as it is.
report() { # TOTAL
  local line compiled=0 downloaded=0 shown=$SECONDS every=10 status
  [ ! -t 1 ] || every=1
  while :; do
    status=0
    IFS= read -r -t 1 line || status=$?
    if [ "$status" = 0 ]; then
      case $line in
        "go: downloading "*) downloaded=$((downloaded + 1)) ;;
        *[!A-Za-z0-9._/~+-]*) echo "$line" >&2 ;;
        *) compiled=$((compiled + 1)) ;;
      esac
    fi
    if [ $((SECONDS - shown)) -ge "$every" ] || [ "$status" = 1 ]; then
      shown=$SECONDS
      progress "$compiled" "$1" "$downloaded"
    fi
    [ "$status" != 1 ] || break # the end; more than 128 is the time that has passed
  done
  if [ -t 1 ] && [ $((compiled + downloaded)) -gt 0 ]; then echo; fi
}

progress() { # COMPILED TOTAL DOWNLOADED
  local text
  [ $(($1 + $3)) -gt 0 ] || return 0
  if [ "$2" = 0 ]; then
    text="make: $3 modules downloaded, $((SECONDS - start)) s"
  else
    text="make: compiled $1 of $2 packages ($((100 * $1 / $2)) %), $((SECONDS - start)) s"
  fi
  if [ -t 1 ]; then printf '\r%s\e[K' "$text"; else echo "$text"; fi
}

echo "make: $what"
stale=$(mktemp)
trap 'rm -f "$stale"' EXIT
{ "$go" list -C "$folder" "${flags[@]}" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$@" 2>&1 >"$stale" || true; } | report 0
total=$(wc -l <"$stale")
"$go" build -C "$folder" "${flags[@]}" -v -o "$output" "$@" 2>&1 | report "$total"
took=$((SECONDS - start))
[ "$took" -lt 10 ] || echo "make: done in $took s: $what"
