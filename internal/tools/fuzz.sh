#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every parser of some folders for a time each, also after one that has failed; ends with 1 if any has.
# Inputs that fail are left in the package's testdata/fuzz, where every later test run tries them.
#   fuzz.sh TIME FOLDER...
set -euo pipefail

time=$1
shift
failed=()
while IFS=: read -r file function; do
  package=./$(dirname "$file")
  function=${function#func }
  internal/tools/progress.sh "fuzzing by $function of $package for $time" \
    "${GO:-go}" test -run '^$' -fuzz "^$function\$" -fuzztime "$time" "$package" </dev/null || failed+=("$package $function")
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' "$@" | sort)
[ ${#failed[@]} -eq 0 ] || { printf 'make: fuzzing has failed: %s\n' "${failed[@]}" >&2; exit 1; }
