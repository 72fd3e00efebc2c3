#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs Debian packages that are missing.
#   ensure.sh WHY PACKAGE:PROBE...
# PROBE is a command or, if it begins with a slash, a file; a package is installed only when its probe is not there.
# ENSURE_DRY_RUN=1 prints what would be done and does nothing. ENSURE_ABSENT="PACKAGE ..." takes packages for missing.
set -euo pipefail

why=$1
shift

present() { # PROBE
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing=()
for spec in "$@"; do
  package=${spec%%:*}
  probe=${spec#*:}
  if [[ " ${ENSURE_ABSENT:-} " == *" $package "* ]] || ! present "$probe"; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "make: $why; not here yet: ${missing[*]}"
install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "${ENSURE_DRY_RUN:-}" = 1 ]; then
  echo "make: would run: apt-get update"
  echo "make: would run: ${install[*]}"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "make: no apt-get on this machine: install what provides them by hand" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "make: installing packages needs root; as root run: ${install[*]}" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
stamp=_build/.apt-updated
mkdir -p _build
if [ ! -e "$stamp" ] || [ -n "$(find "$stamp" -mmin +60)" ]; then
  echo "make: apt-get update"
  apt-get update -q </dev/null
  touch "$stamp"
fi
# Packages of servers start them when they are installed, unless this file says no (invoke-rc.d(8)).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
echo "make: ${install[*]}"
"${install[@]}" </dev/null

for spec in "$@"; do
  present "${spec#*:}" || { echo "make: ${spec%%:*} is installed, but ${spec#*:} is not there" >&2; exit 1; }
done
