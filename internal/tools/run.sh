#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts the Collector with testdata/run.yaml, a demo load, and in front of them ebpf-top, which also writes flame graphs.
# RUN_SECONDS=N ends by itself after N seconds, NO_DEMO=1 starts no demo load. Called by `make run`, which has built the
# programs.
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
  bin/ebpf-top                                    # in another terminal: functions, requests, connections and triggers
TEXT
  exit 1
fi
[ "${1:-}" != check ] || exit 0

children=()
stopped=
collector=

# Ends what was started: the Collector last, and in its own time, so that it delivers the last interval.
stop_all() {
  [ -z "$stopped" ] || return 0
  stopped=1
  trap '' INT TERM HUP
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
trap 'interrupted=1' INT TERM HUP
trap stop_all EXIT

# The exporter makes files that all may read, whatever the umask is when it rotates them: the folder is for its owner alone, who under
# sudo is the user that opens the flame graphs. One that exists is left as it is.
if [ ! -d "$out" ]; then
  (umask 077; mkdir -p "$out")
  [ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$out"
elif [ -n "$(find "$out" -maxdepth 0 -perm /077)" ]; then
  echo "make run: other users of this machine may read $out; chmod 700 it if they are not to see what its profiles and metrics name"
fi
for signal in profiles metrics logs; do
  [ ! -e "$out/$signal.json" ] || mv -f "$out/$signal.json" "$out/$signal-previous.json"
done
export OUT=$out # testdata/run.yaml asks for it

setsid bin/otelcol-ebpf-quick --config "$config" >"$log" 2>&1 </dev/null &
collector=$!
echo "make run: the Collector runs as pid $collector with $config; its log is $log"
demo=
if [ -z "${NO_DEMO:-}" ]; then
  OTEL_SERVICE_NAME=demo-customer setsid bin/demo-load -duration 10m -share 0.3 -shop >/dev/null 2>&1 </dev/null &
  demo=$!
  children+=("$demo")
  echo "make run: a demo load runs for at most 10 minutes: a third of one CPU, and 25 HTTP requests per second on 127.0.0.1 (NO_DEMO=1: none)"
fi
echo "make run: ${seconds:+ends after $seconds s; }Ctrl-C ends"

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
      # 141: SIGPIPE, what read the output has ended.
      [ "$status" = 0 ] || [ "$status" = 141 ] || { echo "make run: ebpf-top ended with status $status" >&2; exit 1; }
      break ;;
    "$timer") break ;;
    "$demo") demo= ;;
  esac
done

stop_all
written() { # FILE WHAT
  [ ! -e "$out/$1" ] || printf '  %-32s %6s  %s\n' "$out/$1" "$(du -h --apparent-size "$out/$1" | cut -f 1)" "$2"
}
echo "make run: written:"
written flamegraph.html "flame graph of the last 20 intervals: open it in a browser"
written flamegraphs "a flame graph of each of them"
written profiles.json "profiles (OTLP JSON)"
written metrics.json "connections and requests"
written logs.json "single requests, triggers and tasks"
written collector.log "the Collector's log"
cat <<TEXT
make run: to try next:
  bin/ebpf-top -dir $out -pprof cpu.pb.gz && go tool pprof -top cpu.pb.gz
  make demo-trigger    # services get into trouble, policies start the profiles that show why
  make build           # the Collector with all its components: bin/otelcol-ebpf
make run: make it yours: the configuration that ran is $config. Copy it, add an exporter, and start it:
  cp $config my.yaml && sudo bin/otelcol-ebpf-quick --config my.yaml
TEXT
