#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts the Collector with testdata/run.yaml, a demo load if the machine is idle, and in front of them ebpf-top, which
# also writes flame graphs.
# RUN_SECONDS=N ends by itself after N seconds. Called by `make run`, which has built the programs.
set -euo pipefail

out=${OUT:-out}
seconds=${RUN_SECONDS:-}
config=testdata/run.yaml
log=$out/collector.log

# Called first with "check": before the build, which takes minutes.
if [ "$(id -u)" != 0 ]; then
  cat >&2 <<'TEXT'
make run: not root. Loading BPF programs and sampling other users' processes are privileges: start it as root, under sudo
by sudo env "PATH=$PATH" make run. Or build the Collector and start it yourself:
  make build
  bin/otelcol-ebpf --config testdata/run.yaml     # names the capabilities that it needs and how to grant them
  bin/ebpf-top                                    # in another terminal: the hottest functions
TEXT
  exit 1
fi
[ "${1:-}" != check ] || exit 0

# Percentage of the last second in which the CPUs were busy, over all CPUs.
busy_percent() {
  local before after
  read -r -a before < <(grep '^cpu ' /proc/stat)
  sleep 1
  read -r -a after < <(grep '^cpu ' /proc/stat)
  local i total=0 idle
  for i in 1 2 3 4 5 6 7 8; do total=$((total + ${after[i]:-0} - ${before[i]:-0})); done
  idle=$((after[4] - before[4] + after[5] - before[5]))
  [ "$total" -gt 0 ] || total=1
  echo $((100 * (total - idle) / total))
}

children=()
stopped=
collector=

# Ends what was started: the Collector last, and in its own time, so that it delivers the last interval.
stop_all() {
  [ -z "$stopped" ] || return 0
  stopped=1
  trap '' INT TERM
  local pid
  for pid in ${children[@]+"${children[@]}"}; do kill -TERM "$pid" 2>/dev/null || true; done
  if [ -n "$collector" ] && kill -TERM "$collector" 2>/dev/null; then
    echo "make run: stopping the Collector, which writes out its last interval"
    local tries=0
    while kill -0 "$collector" 2>/dev/null; do
      tries=$((tries + 1))
      if [ "$tries" -gt 150 ]; then
        echo "make run: the Collector did not end within 15 s and is killed" >&2
        kill -KILL "$collector" 2>/dev/null || true
        break
      fi
      sleep 0.1
    done
  fi
  wait 2>/dev/null || true
}

died() {
  echo "make run: the Collector ended by itself; the end of $log:" >&2
  tail -n 15 "$log" >&2
  exit 1
}

interrupted=
trap 'interrupted=1' INT TERM
trap stop_all EXIT

mkdir -p "$out"
for signal in profiles metrics; do
  [ ! -e "$out/$signal.json" ] || mv -f "$out/$signal.json" "$out/$signal-previous.json"
done
export OUT=$out # testdata/run.yaml asks for it

setsid bin/otelcol-ebpf --config "$config" >"$log" 2>&1 </dev/null &
collector=$!
echo "make run: the Collector runs as pid $collector; its log is $log"
busy=$(busy_percent)
kill -0 "$collector" 2>/dev/null || died
if [ "$busy" -lt 20 ] && [ -z "$interrupted" ]; then
  echo "make run: the machine is idle ($busy % busy): starting a demo load, bin/demo-load, on one CPU for at most 10 minutes"
  setsid bin/demo-load -duration 10m >/dev/null 2>&1 </dev/null &
  children+=($!)
else
  echo "make run: the machine has work of its own ($busy % busy): no demo load is started"
fi
echo "make run: profiles go to $out/profiles.json, metrics of connections to $out/metrics.json (OTLP JSON); ${seconds:+ends after $seconds s, }Ctrl-C ends"

echo "make run: flame graphs go to $out/flamegraph.html (the latest) and $out/flamegraphs/ (the last 20): open them in a browser"

bin/ebpf-top -dir "$out" -flamegraphs 20 </dev/null &
top=$!
children+=("$top")
timer=
if [ -n "$seconds" ]; then
  sleep "$seconds" &
  timer=$!
  children+=("$timer")
fi

# Sleeps until a child ends or a signal comes: looking around would show in the profiles.
while [ -z "$interrupted" ]; do
  status=0
  ended=
  wait -n -p ended || status=$?
  [ -z "$interrupted" ] || break
  case $ended in
    "$collector") died ;;
    "$top")
      [ "$status" = 0 ] || { echo "make run: ebpf-top ended with status $status" >&2; exit 1; }
      break ;;
    "$timer") break ;;
    *) echo "make run: the demo load has ended" ;;
  esac
done

stop_all
echo "make run: written:"
ls -l "$out"/profiles*.json "$out"/metrics*.json "$out"/flamegraph.html "$log" 2>/dev/null || true
