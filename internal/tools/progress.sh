#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command, says what is done and, every 15 s, that it still is; ends with the command's own status.
#   progress.sh WHAT COMMAND...
set -euo pipefail

what=$1
shift
echo "make: $what"
start=$SECONDS
(
  trap 'kill "$sleeper" 2>/dev/null; exit 0' TERM
  while :; do
    sleep 15 >/dev/null 2>&1 &
    sleeper=$!
    wait "$sleeper"
    echo "make: still at it after $((SECONDS - start)) s: $what"
  done
) &
ticker=$!
trap 'kill "$ticker" 2>/dev/null || true' EXIT

"$@"
took=$((SECONDS - start))
[ "$took" -lt 15 ] || echo "make: done in $took s: $what"
