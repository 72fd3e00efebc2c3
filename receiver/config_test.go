// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// load reads a configuration as the Collector does.
func load(t *testing.T, file, id string) (*Config, error) {
	t.Helper()
	all, err := confmaptest.LoadConf(filepath.Join("testdata", file))
	require.NoError(t, err)
	sub, err := all.Sub(id)
	require.NoError(t, err)
	config := createDefaultConfig()
	if err := sub.Unmarshal(&config); err != nil {
		return nil, err
	}
	return config.(*Config), confmap.Validate(config)
}

func TestConfig(t *testing.T) {
	fileStorage := component.MustNewIDWithName("file_storage", "tasks")
	defaults := func(change func(*Config)) *Config {
		c := createDefaultConfig().(*Config)
		change(c)
		return c
	}
	for name, want := range map[string]*Config{
		"":        defaults(func(*Config) {}),
		"nothing": defaults(func(c *Config) { c.Observe = ObserveConfig{} }),
		"listed":  defaults(func(c *Config) { delete(c.Observe.listed, network.Name) }),
		"network": defaults(func(c *Config) { delete(c.Observe.listed, oncpu.Name) }),
		"l4": defaults(func(c *Config) {
			l4 := network.DefaultOptions()
			l4.Capture, l4.Role, l4.Peers = "none", "server", network.PeerOptions{Detail: "service"}
			c.Observe = ObserveConfig{}
			c.Observe.list(network.Name, l4)
		}),
		"some": defaults(func(c *Config) {
			onCPU := oncpu.DefaultOptions()
			onCPU.Period = 50 * time.Millisecond
			c.Observe = ObserveConfig{}
			c.Observe.list(oncpu.Name, onCPU)
		}),
		"faults": defaults(func(c *Config) {
			c.Observe = ObserveConfig{}
			c.Observe.list(memory.Name, &memory.Options{
				Common: observe.Common{ReportInterval: 5 * time.Second}, Source: "page_faults", SampleBytes: 512 << 10, Live: true,
			})
		}),
		"malloc": defaults(func(c *Config) {
			malloc := memory.DefaultOptions()
			malloc.Source = "malloc"
			c.Observe = ObserveConfig{}
			c.Observe.list(memory.Name, malloc)
		}),
		"tasks": defaults(func(c *Config) {
			run := func(kind observe.Kind, options observe.Options, duration time.Duration) RunConfig {
				var c RunConfig
				c.list(kind, kindRun{options, duration})
				return c
			}
			onCPU := run(oncpu.Name, oncpu.DefaultOptions(), 0)
			slow := offcpu.DefaultOptions()
			slow.MinBlock = 5 * time.Millisecond
			c.Tasks = []TaskConfig{{
				Name: "slow-pay", Targets: []SelectorConfig{{Service: "checkout"}}, Duration: 20 * time.Minute,
				Start: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
				Run: []RunConfig{
					onCPU, run(offcpu.Name, slow, 0), run(network.Name, network.DefaultOptions(), 2*time.Minute),
					run(memory.Name, memory.DefaultOptions(), 0),
				},
			}, {Name: "text", Duration: 10 * time.Minute, Start: time.Date(2026, 11, 21, 10, 0, 0, 0, time.FixedZone("", 3600)), Run: []RunConfig{onCPU}}}
		}),
		"policies": defaults(func(c *Config) {
			var run RunConfig
			run.list(oncpu.Name, kindRun{options: oncpu.DefaultOptions()})
			c.Policies = []PolicyConfig{{
				Name: "checkout-slow", Targets: []SelectorConfig{{Service: "checkout"}},
				When: []RuleConfig{
					{Monitor: "process_cpu", Threshold: threshold(80), Period: 10 * time.Second, Count: 5},
					{Monitor: "http_avg_response_time", Threshold: threshold(300), Period: 30 * time.Second, Count: 10, URIRegex: "^/pay"},
				},
				Run: []RunConfig{run}, Duration: 10 * time.Minute, Silence: 20 * time.Minute,
			}, {
				Name: "failing", Run: []RunConfig{run}, Duration: time.Minute, Silence: time.Hour,
				When: []RuleConfig{{Monitor: "http_error_rate", Threshold: threshold(0), Period: time.Second, Count: 1, URIList: []string{"/a", "/b"}}},
			}}
		}),
		"all": {
			RootPath: "/proc/self/root",
			Targets: TargetsConfig{
				Include: []SelectorConfig{{
					PID: 17, Comm: "^nginx", Exe: "/usr/sbin/*", Cmdline: "worker", Port: 8080, ContainerID: "0123456789AB",
					PodUID: "^8d3a", Service: "checkout", Set: map[string]string{"service.name": "checkout", "team": "pay"},
				}, {Comm: "redis"}},
				Exclude:      []SelectorConfig{{Exe: "/usr/bin/**"}},
				ScanInterval: time.Minute,
			},
			Observe: listing(&oncpu.Options{
				Common:  observe.Common{Targets: []SelectorConfig{{Port: 65535}}, ReportInterval: 10 * time.Minute},
				Options: stacks.Options{UserStacks: true, MaxDepth: 1},
				Period:  time.Second, Event: "cycles",
			}, &offcpu.Options{
				Common:   observe.Common{Targets: []SelectorConfig{{Comm: "redis"}}, ReportInterval: time.Second},
				Options:  stacks.Options{KernelStacks: true, MaxDepth: 64},
				MaxBlock: 24 * time.Hour,
			}, &memory.Options{
				Common: observe.Common{Targets: []SelectorConfig{{Comm: "redis"}}, ReportInterval: time.Second},
				Source: "malloc", SampleBytes: 64 << 20,
			}, &network.Options{
				Common: observe.Common{Targets: []SelectorConfig{{Comm: "redis"}}, ReportInterval: time.Second},
				Role:   "client", Peers: network.PeerOptions{Detail: "process"}, Protocols: []string{"redis", "dns"}, TLS: []string{},
				Capture: "messages", CaptureLimit: 128 << 10, Buffer: 64 << 10, QueueSize: 1, Analyzers: 64,
				Requests: network.RequestOptions{Log: "all", Slow: time.Millisecond, Spans: true, SamplesPerSecond: 5, Samples: []network.SampleOptions{{
					URIRegex: "^/pay", MinDuration: 2 * time.Second, On4xx: true, On5xx: true,
					Request:  network.BodyOptions{MaxSize: 1 << 10, Encoding: "utf-8"},
					Response: network.BodyOptions{MaxSize: 2 << 10, Encoding: "iso-8859-1"},
				}}},
				Redact: network.RedactOptions{Headers: []string{"X-Token"}},
			}),
			Metrics:  defaultMetrics(),
			Events:   metadata.DefaultEventsConfig(),
			Policies: []PolicyConfig{}, Tasks: []TaskConfig{},
			Storage: &fileStorage,
			Symbols: SymbolsConfig{DebugInfo: true, CacheDir: "/var/cache/ebpf", CacheMiB: 64, Debuginfod: []string{"https://debuginfod.example.com/x"}},
			Limits:  LimitsConfig{MemoryMiB: 32, CPUPercent: 0.5, ConcurrentTasks: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, "config.yaml", component.NewIDWithName(metadata.Type, name).String())
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestDefaults(t *testing.T) {
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	c := createDefaultConfig().(*Config)
	require.NoError(t, confmap.Validate(c))
	require.Equal(t, LimitsConfig{MemoryMiB: 256, CPUPercent: 2, ConcurrentTasks: 16}, c.Limits)
	require.Equal(t, SymbolsConfig{DebugInfo: true, CacheMiB: 256}, c.Symbols)
	require.Equal(t, 10*time.Second, c.Targets.ScanInterval)
	kind, both := observe.Common{ReportInterval: 5 * time.Second}, stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}
	require.Equal(t, oncpu.Options{
		Common: kind, Options: both, Period: 9 * time.Millisecond, Event: "cpu_clock",
	}, *onCPUOf(c))
	ofNetwork := *networkOf(c)
	require.Equal(t, min(runtime.NumCPU(), 4), ofNetwork.Analyzers)
	ofNetwork.Analyzers = 0
	require.Equal(t, network.Options{
		Common: observe.Common{ReportInterval: 2 * time.Second},
		Role:   "both", Peers: network.PeerOptions{ResolveNAT: true, Detail: "service"},
		Protocols: []string{"http", "http2", "mysql", "postgresql", "redis", "mongodb", "cassandra", "kafka", "rocketmq", "dns"},
		TLS:       []string{"openssl", "boringssl", "gnutls", "go", "node", "java"},
		Capture:   "headers", CaptureLimit: 16 << 10, Buffer: 8 << 20, QueueSize: 5000,
		Requests: network.RequestOptions{Log: "slow_or_error", Slow: 500 * time.Millisecond, Top: 10, SamplesPerSecond: 20},
		Redact: network.RedactOptions{
			Headers: requests.CredentialHeaders(), QueryValues: true,
		},
	}, ofNetwork)
	require.Nil(t, c.Observe.listed[offcpu.Name], "only where it is listed")
	require.Equal(t, offcpu.Options{
		Common: kind, Options: both, MinBlock: time.Millisecond,
	}, *offcpu.DefaultOptions())
}

// TestInvalid has one file for each case. The text is what the user reads after the Collector's own path to the receiver.
func TestInvalid(t *testing.T) {
	const selectorKeys = "cmdline, comm, container_id, exe, pid, pod_uid, port, service, set"
	const kindKeys = "event, kernel_stacks, max_depth, period, report_interval, targets, user_stacks"
	const condition = "no condition: at least one of pid, comm, exe, cmdline, port, container_id, pod_uid and service is needed"
	const noValue = "it has no value: "
	const later = "this version does not ask the API server; select by pod_uid or container_id"
	const laterKind = "this version does not have this kind of observation; it has memory, network, off_cpu, on_cpu"
	want := map[string]string{
		"unknown_key":              "observ: no such key; allowed here are events, limits, metrics, observe, policies, root_path, storage, symbols, targets, tasks",
		"unknown_key_in_limits":    "limits::memory_mb: no such key; allowed here are concurrent_tasks, cpu_percent, memory_mib",
		"unknown_key_in_selector":  "targets::include[1]::command: no such key; allowed here are " + selectorKeys,
		"unknown_key_in_narrowing": "observe::on_cpu::targets[0]::image: no such key; allowed here are " + selectorKeys,
		"unknown_key_in_kind":      "observe::on_cpu::periode: no such key; allowed here are " + kindKeys,
		"enabled":                  "observe::on_cpu::enabled: no such key; allowed here are " + kindKeys,
		"unknown_kind":             "observe::oncpu: no such key; allowed here are memory, network, off_cpu, on_cpu",

		"later_kind":       "observe::trace: " + laterKind,
		"later_control":    "control: this version has no control API",
		"later_kubernetes": "kubernetes: " + later,
		"later_pod":        "targets::include[1]::pod: " + later,
		"later_pod_kind":   "observe::memory::targets[0]::pod: " + later,

		"policies": "policies[0]::when: it is empty: say at least one threshold, such as {monitor: process_cpu, threshold: 80, period: 10s, count: 5}\n" +
			"policies[0]::run: it is empty: say what to run, such as [on_cpu]; there are memory, network, off_cpu, on_cpu\n" +
			"policies[0]::duration: 1ms is not allowed: it must lie between 1s and 24h0m0s\n" +
			"policies[0]::silence: 0s is not allowed: it must lie between 1s and 168h0m0s\n" +
			`policies[1]::name: "a" is not allowed: it is the name of policies[0] already` + "\n" +
			"policies[1]::targets[0]::set: only selectors of targets::include set attributes\n" +
			`policies[1]::when[0]::monitor: "cpu" is not allowed: it must be one of ` + strings.Join(monitor.Names(nil), ", ") + "\n" +
			"policies[1]::when[1]::threshold: it is missing: it must be a number from 0 on\n" +
			"policies[1]::when[1]::count: 11 is not allowed: it must lie between 1 and 10, the seconds of period\n" +
			"policies[1]::when[2]::threshold: 101 is not allowed: http_error_rate is in per cent, from 0 to 100\n" +
			"policies[1]::when[2]::uri_regex: not allowed together with uri_list: write a rule for each\n" +
			`policies[1]::when[2]::uri_list[1]: "pay" is not allowed: it must be a path as /pay, without a query` + "\n" +
			`policies[1]::when[2]::uri_list[2]: "/pay" is not allowed: it is uri_list[0] already` + "\n" +
			"policies[1]::when[2]::uri_regex: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`\n" +
			"policies[1]::when[2]::period: 1.5s is not allowed: it must be whole seconds, each of which has one value\n" +
			"policies[1]::when[3]::uri_list: not allowed where monitor is system_load: it narrows http_error_rate and http_avg_response_time\n" +
			"policies[1]::when[3]::period: 2h0m0s is not allowed: it must lie between 1s and 1h0m0s\n" +
			"policies[1]::when[4]::threshold: -2 is not allowed: it must be a number from 0 on\n" +
			"policies[1]::when[4]::count: 0 is not allowed: it must lie between 1 and 10, the seconds of period\n" +
			"policies[1]::when[5]::threshold: -1 is not allowed: it must be a number from 0 on\n" +
			"policies[1]::when[6]::threshold: +Inf is not allowed: it must be a number from 0 on",
		"policies_nan": "policies[0]::when[0]::threshold: NaN is not allowed: it must be a number",
		"policies_keys": "policies[0]::targets[0]::pod: " + later + "\n" +
			`policies[0]::when[0]::count: "few" is not allowed: it must be a whole number` + "\n" +
			`policies[0]::when[0]::period: 10 is not allowed: it must be a duration with its unit, such as 9ms` + "\n" +
			"policies[0]::when[0]::thresh: no such key; allowed here are count, monitor, period, threshold, uri_list, uri_regex\n" +
			`policies[0]::when[0]::threshold: "80%" is not allowed: it must be a number` + "\n" +
			"policies[0]::run: it is empty: say what to run, such as [on_cpu]; there are memory, network, off_cpu, on_cpu",

		"tasks": "tasks[0]::run: it is empty: say what to run, such as [on_cpu]; there are memory, network, off_cpu, on_cpu\n" +
			`tasks[1]::name: "a" is not allowed: it is the name of tasks[0] already` + "\n" +
			"tasks[1]::run[1]::on_cpu: it is in tasks[1]::run[0] already: each kind is run once\n" +
			"tasks[1]::run[1]::on_cpu::period: 1µs is not allowed: it must lie between 1ms and 1s\n" +
			"tasks[1]::targets[0]::comm: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`\n" +
			"tasks[1]::duration: 1ms is not allowed: it must lie between 1s and 24h0m0s\n" +
			"tasks[2]::name: it has no value: the task's logs and profiles need a name\n" +
			"tasks[2]::run[0]::network::duration: 48h0m0s is not allowed: it must lie between 1s and 24h0m0s\n" +
			"tasks[2]::run[0]::network::targets: not allowed in a run: set the targets of the task or policy\n" +
			"tasks[2]::run[1]: it must name one kind of observation, and names 2: write a list element for each\n" +
			"tasks[2]::run[2]: it must name one kind of observation, and names 0: write a list element for each\n" +
			"tasks[2]::duration: 0s is not allowed: it must lie between 1s and 24h0m0s",
		"storage":      `storage: "a b" is not allowed: it must be the name of an extension, such as file_storage`,
		"storage_none": "storage: it has no value: it must be the name of an extension, such as file_storage, or leave the key out for the default",
		"storage_map":  "storage: a map is not allowed: it must be the name of an extension, such as file_storage",
		"limits_tasks": "limits::concurrent_tasks: 0 is not allowed: it must lie between 1 and 256",
		"tasks_keys": `tasks[0]::run[0]: "oncpu" is not allowed: kinds of observation are memory, network, off_cpu, on_cpu` + "\n" +
			`tasks[0]::run[1]: "trace": ` + laterKind + "\n" +
			"tasks[0]::run[2]: 7 is not allowed: it must be the name of a kind, such as on_cpu, or a map from that name to its fields\n" +
			"tasks[0]::run[3]: a list is not allowed: it must be the name of a kind, such as on_cpu, or a map from that name to its fields\n" +
			"tasks[0]::run[4]::trace: " + laterKind + "\n" +
			"tasks[0]::run[5]::on_cpu::perod: no such key; allowed here are duration, event, kernel_stacks, max_depth, period, report_interval, targets, user_stacks\n" +
			`tasks[0]::start: "tomorrow" is not allowed: it must be a time with its zone, such as 2026-11-21T09:00:00Z` + "\n" +
			`tasks[1]::run: "on_cpu" is not allowed: it must be a list` + "\n" +
			"tasks[1]::start: a map is not allowed: it must be a time with its zone, such as 2026-11-21T09:00:00Z\n" +
			"tasks[1]::targets[0]::pod: " + later,

		"type_observe":      `observe: "on_cpu" is not allowed: it must be a map`,
		"type_observe_list": "observe: a list is not allowed: it must be a map",
		"type_include":      `targets::include: "nginx" is not allowed: it must be a list`,
		"type_pid":          `targets::include[0]::pid: "init" is not allowed: it must be a whole number from 1 to 4294967295`,
		"type_pid_negative": "targets::include[0]::pid: -1 is not allowed: it must be a whole number from 1 to 4294967295",
		"type_port":         "targets::include[0]::port: 65536 is not allowed: it must be a whole number from 1 to 65535",
		"zero_pid":          "targets::include[1]::pid: 0 is not allowed: it must be a whole number from 1 to 4294967295",
		"zero_port":         "observe::on_cpu::targets[0]::port: 0 is not allowed: it must be a whole number from 1 to 65535",
		"text_container":    "targets::include[0]::container_id: a number is not allowed: it must be text; put it in quotes",
		"text_octal":        "targets::exclude[1]::container_id: a number is not allowed: it must be text; put it in quotes",
		"text_set":          "targets::include[0]::set::team: a number is not allowed: it must be text; put it in quotes",
		"text_several": "targets::include[0]::cmdline: a date is not allowed: it must be text; put it in quotes\n" +
			"targets::include[0]::comm: true is not allowed: it must be text; put it in quotes\n" +
			"targets::include[0]::exe: a list is not allowed: it must be text\n" +
			"targets::include[0]::service: a map is not allowed: it must be text\n" +
			`root_path: "5" is not allowed: it must be absolute`,
		"text_refused": "targets::include[0]::set::team: a number is not allowed: it must be text; put it in quotes\n" +
			"targets::include[1]::set: process.pid is what the receiver finds out itself: it cannot be set\n" +
			"targets::exclude[0]::set: only selectors of targets::include set attributes\n" +
			`observe::network::capture: "5" is not allowed: it must be one of none, headers, messages`,
		"several": `observe::on_cpu::period: "fast" is not allowed: it must be a duration with its unit, such as 9ms` + "\n" +
			`targets::include[0]::pid: "init" is not allowed: it must be a whole number from 1 to 4294967295` + "\n" +
			"targets::include[0]::prot: no such key; allowed here are " + selectorKeys + "\n" +
			"targets::include[1]::comm: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`\n" +
			"targets::scan_interval: 0s is not allowed: it must lie between 1s and 1h0m0s\n" +
			"observe::on_cpu::max_depth: 0 is not allowed: it must lie between 1 and 1023\n" +
			"limits::memory_mib: 1 is not allowed: it must lie between 32 and 65536",
		"several_depend": `limits::memory_mib: "much" is not allowed: it must be a whole number` + "\n" +
			`observe::off_cpu::min_block: 1 is not allowed: it must be a duration with its unit, such as 9ms` + "\n" +
			`policies[0]::when[0]::threshold: "80%" is not allowed: it must be a number` + "\n" +
			"policies[0]::silence: 0s is not allowed: it must lie between 1s and 168h0m0s",
		"type_set":           "targets::include[0]::set: a list is not allowed: it must be a map",
		"type_period":        `observe::on_cpu::period: "soon" is not allowed: it must be a duration with its unit, such as 9ms`,
		"type_period_number": "observe::on_cpu::period: 9 is not allowed: it must be a duration with its unit, such as 9ms",
		"type_stacks":        `observe::on_cpu::kernel_stacks: "maybe" is not allowed: it must be true or false`,
		"type_depth_float":   "observe::on_cpu::max_depth: 100.0 is not allowed: it must be a whole number",
		"type_depth":         "observe::on_cpu::max_depth: 1.5 is not allowed: it must be a whole number",
		"type_cpu":           `limits::cpu_percent: "much" is not allowed: it must be a number`,

		"no_value": "limits::cpu_percent: " + noValue + "it must be a number, or leave the key out for the default\n" +
			"limits::memory_mib: " + noValue + "it must be a whole number, or leave the key out for the default\n" +
			"observe::memory::sample_bytes: " + noValue + "it must be a size in bytes, such as 512KiB, or leave the key out for the default\n" +
			"observe::off_cpu::min_block: " + noValue + "it must be a duration with its unit, such as 9ms, or leave the key out for the default\n" +
			"observe::on_cpu::user_stacks: " + noValue + "it must be true or false, or leave the key out for the default",

		"root_relative": `root_path: "." is not allowed: it must be absolute`,
		"root_empty":    `root_path: "" is not allowed: it must be absolute`,
		"no_stacks":     "observe::on_cpu::user_stacks: false is not allowed where kernel_stacks is false: samples would have no stacks",
		"root_missing":  "root_path: the host's file system must be mounted there: stat /none/of/this: no such file or directory",
		"root_other":    "root_path: /proc/sys has no proc: the host's file system must be mounted there, its /proc included: stat /proc/sys/proc/self: no such file or directory",
		"root_file":     "root_path: /proc/version is not a directory: the host's file system must be mounted there",

		"selector_empty":    "targets::include[0]: " + condition,
		"selector_set_only": "targets::include[0]: " + condition,
		"selector_no_value": "observe::memory::targets[0]::port: " + noValue + "say what must match, or leave the key out\n" +
			"targets::include[0]::container_id: " + noValue + "say what must match, or leave the key out\n" +
			"targets::include[0]::pid: " + noValue + "say what must match, or leave the key out\n" +
			"targets::include[0]::set: " + noValue + "it must be a map, or leave the key out for the default",
		"no_value_scope": "metrics::ebpf.tcp.rtt: " + noValue + "it must be a map, or leave the key out for the default\n" +
			"observe::network::redact::headers: " + noValue + "it must be a list, or leave the key out for the default\n" +
			"observe::on_cpu::targets: " + noValue + "it must be a list, or leave the key out for the default\n" +
			"policies[0]::targets: " + noValue + "it must be a list, or leave the key out for the default\n" +
			"policies[0]::when[0]::uri_list: " + noValue + "it must be a list, or leave the key out for the default\n" +
			"targets::exclude[1]: " + noValue + "it must be a map, or leave the element out\n" +
			"targets::include: " + noValue + "it must be a list, or leave the key out for the default",
		"selector_set_no_value": "targets::include[0]::set::service.name: " + noValue + "give it one, or leave the key out\n" +
			"targets::include[0]::set::team: " + noValue + "give it one, or leave the key out",
		"selector_exe":          `targets::include[0]::exe: compiling the glob "[a": at byte 2: [ without ], or nothing between them`,
		"selector_comm":         "targets::exclude[1]::comm: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`",
		"selector_exclude_set":  "targets::exclude[0]::set: only selectors of targets::include set attributes",
		"selector_narrow_set":   "observe::on_cpu::targets[0]::set: only selectors of targets::include set attributes",
		"selector_narrowing":    `observe::on_cpu::targets[0]::container_id: "abc" is not 12 to 64 hexadecimal digits`,
		"selector_service_name": "targets::include[0]::set: service.name is empty",
		"selector_two": "targets::include[0]::comm: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`\n" +
			`targets::include[0]::container_id: "xyz" is not 12 to 64 hexadecimal digits`,

		"memory_source":       `observe::memory::source: "frees" is not allowed: it must be page_faults or malloc`,
		"memory_distance_low": "observe::memory::sample_bytes: 1023B is not allowed: it must lie between 1KiB and 64MiB",
		"memory_distance":     "observe::memory::sample_bytes: 65MiB is not allowed: it must lie between 1KiB and 64MiB",
		"memory_distance_no":  `observe::memory::sample_bytes: "512KB" is not allowed: it must be a size in bytes, such as 512KiB`,
		"memory_live":         `observe::memory::live: "frees" is not allowed: it must be true or false`,
		"memory_report":       "observe::memory::report_interval: 10ms is not allowed: it must lie between 1s and 10m0s",
		"memory_targets":      "observe::memory::targets[0]::set: only selectors of targets::include set attributes",
		"memory_key":          "observe::memory::period: no such key; allowed here are live, report_interval, sample_bytes, source, targets",

		"metrics_name": "metrics::ebpf.network.oi: no such key; allowed here are dns.lookup.duration, ebpf.dns.lookups.untimed, ebpf.http.avg_response_time, " +
			"ebpf.http.client.request.size, ebpf.http.client.requests.untimed, ebpf.http.client.response.size, ebpf.http.error_rate, ebpf.http.server.request.size, " +
			"ebpf.http.server.requests.untimed, ebpf.http.server.response.size, ebpf.limit.level, ebpf.network.connections, ebpf.network.drops, ebpf.network.io, " +
			"ebpf.network.operation.duration, ebpf.network.wait.duration, ebpf.rpc.client.calls.untimed, ebpf.rpc.server.calls.untimed, " +
			"ebpf.system.cpu.pressure, ebpf.system.io.pressure, ebpf.system.memory.pressure, ebpf.tcp.connection.failures, ebpf.tcp.resets, ebpf.tcp.retransmits, ebpf.tcp.rtt, histograms, " +
			"http.client.request.body.size, http.client.request.duration, http.client.response.body.size, http.server.request.body.size, " +
			"http.server.request.duration, http.server.response.body.size, process.cpu.utilization, process.thread.count, resource, rpc.client.call.duration, " +
			"rpc.server.call.duration, system.cpu.load_average.1m",
		"metrics_type": "metrics::ebpf.network.io: false is not allowed: it must be a map",

		"metrics_resource":     `metrics::resource: "pod" is not allowed: it must be one of instance, process`,
		"metrics_histograms":   `metrics::histograms: "native" is not allowed: it must be one of explicit, exponential`,
		"network_role":         `observe::network::role: "proxy" is not allowed: it must be one of client, server, both`,
		"network_protocol":     `observe::network::protocols[1]: "gopher" is not allowed: it must be one of http, http2, mysql, postgresql, redis, mongodb, cassandra, kafka, rocketmq, dns`,
		"network_peers":        `observe::network::peers::detail: "pod" is not allowed: it must be one of service, address, process, none`,
		"network_tls":          `observe::network::tls[0]: "schannel" is not allowed: it must be one of openssl, boringssl, gnutls, go, node, java`,
		"network_capture":      `observe::network::capture: "packets" is not allowed: it must be one of none, headers, messages`,
		"network_buffer_power": "observe::network::buffer: 3MiB is not allowed: it must be a power of two",
		"network_buffer_share": "observe::network::buffer: 16MiB is not allowed: it may be a quarter of limits::memory_mib at most, which is 16128KiB",
		"network_ranges": "observe::network::report_interval: 100ms is not allowed: it must lie between 1s and 10m0s\n" +
			"observe::network::capture_limit: 129KiB is not allowed: it must lie between 256B and 128KiB\n" +
			"observe::network::buffer: 2GiB is not allowed: it must lie between 64KiB and 1GiB\n" +
			"observe::network::queue_size: 0 is not allowed: it must lie between 1 and 1000000\n" +
			"observe::network::analyzers: 65 is not allowed: it must lie between 1 and 64\n" +
			`observe::network::requests::log: "errors" is not allowed: it must be one of none, slow_or_error, all` + "\n" +
			"observe::network::requests::slow: 0s is not allowed: it must lie between 1ms and 1h0m0s\n" +
			"observe::network::requests::top: 1001 is not allowed: it must lie between 0 and 1000",
		"network_key":             "observe::network::requests::sample: no such key; allowed here are log, samples, samples_per_second, slow, spans, top",
		"network_key_in_rule":     "observe::network::requests::samples[0]::uri: no such key; allowed here are min_duration, on_4xx, on_5xx, request, response, uri_regex",
		"network_targets":         "observe::network::targets[0]::set: only selectors of targets::include set attributes",
		"network_samples_capture": "observe::network::requests::samples: not allowed where capture is headers: bodies are read under capture messages alone",
		"network_samples": "observe::network::requests::samples[1]: no condition: at least one of uri_regex, min_duration, on_4xx and on_5xx is needed\n" +
			"observe::network::requests::samples[1]::request::max_size: 5KiB is not allowed: it must lie between 0 and 4KiB\n" +
			"observe::network::requests::samples[2]::min_duration: -1s is not allowed: it must lie between 0s and 1h0m0s\n" +
			"observe::network::requests::samples[2]::uri_regex: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`\n" +
			`observe::network::requests::samples[2]::response::encoding: "utf 8" is not allowed: it must be the name of a character encoding by the Encoding Standard, such as utf-8`,
		"network_redact": `observe::network::redact::headers[1]: "x api key" is not allowed: it must be the name of a header, such as authorization` + "\n" +
			`observe::network::redact::headers[2]: "" is not allowed: it must be the name of a header, such as authorization` + "\n" +
			`observe::network::redact::headers[3]: "x-*-token" is not allowed: one * may stand at the beginning or the end, such as *-token` + "\n" +
			`observe::network::redact::headers[4]: "*-token-*" is not allowed: one * may stand at the beginning or the end, such as *-token`,
		"network_type":     `observe::network::protocols: "http" is not allowed: it must be a list`,
		"network_type_nat": `observe::network::peers::resolve_nat: "maybe" is not allowed: it must be true or false`,

		"range_period_low":  "observe::on_cpu::period: 999µs is not allowed: it must lie between 1ms and 1s",
		"range_period_high": "observe::on_cpu::period: 1.001s is not allowed: it must lie between 1ms and 1s",
		"range_report":      "observe::on_cpu::report_interval: 0s is not allowed: it must lie between 1s and 10m0s",
		"range_depth":       "observe::on_cpu::max_depth: 1024 is not allowed: it must lie between 1 and 1023",
		"range_depth_zero":  "observe::on_cpu::max_depth: 0 is not allowed: it must lie between 1 and 1023",
		"range_scan":        "targets::scan_interval: 2h0m0s is not allowed: it must lie between 1s and 1h0m0s",
		"symbols": `symbols::cache_mib: 0 is not allowed: it must lie between 1 and 1048576` + "\n" +
			`symbols::debug_info: false is not allowed where cache_dir or debuginfod is given: there would be nothing to keep or to ask for` + "\n" +
			`symbols::cache_dir: "cache" is not allowed: it must be absolute` + "\n" +
			`symbols::debuginfod[1]: "http://x" is not allowed: it must be a URL as https://debuginfod.example.com`,
		"range_memory":   "limits::memory_mib: 31 is not allowed: it must lie between 32 and 65536",
		"range_cpu":      "limits::cpu_percent: 0 is not allowed: it is per cent of one core, above 0 and at most 100",
		"range_cpu_high": "limits::cpu_percent: 100.5 is not allowed: it is per cent of one core, above 0 and at most 100",
		"range_cpu_nan":  "limits::cpu_percent: NaN is not allowed: it must be a number",
		"event":          `observe::on_cpu::event: "instructions" is not allowed: it must be cpu_clock or cycles`,
		"off_cpu": "observe::off_cpu::min_block: -1ns is not allowed: it must lie between 0s and 1m0s\n" +
			"observe::off_cpu::max_block: 25h0m0s is not allowed: it must lie between 0s and 24h0m0s\n" +
			"observe::off_cpu::report_interval: 1ms is not allowed: it must lie between 1s and 10m0s\n" +
			"observe::off_cpu::targets[0]: " + condition + "\n" +
			"observe::off_cpu::max_depth: 0 is not allowed: it must lie between 1 and 1023\n" +
			"observe::off_cpu::user_stacks: false is not allowed where kernel_stacks is false: samples would have no stacks",
		"off_cpu_max_block": "observe::off_cpu::max_block: 4ms is not allowed: it must be 0 (no maximum) or at least min_block, which is 5ms",
		"many": "targets::scan_interval: 0s is not allowed: it must lie between 1s and 1h0m0s\n" +
			"observe::on_cpu::period: 0s is not allowed: it must lie between 1ms and 1s\n" +
			"observe::on_cpu::event: \"\" is not allowed: it must be cpu_clock or cycles\n" +
			"limits::memory_mib: 0 is not allowed: it must lie between 32 and 65536",
	}
	files, err := filepath.Glob("testdata/invalid/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(want), "each file has a text, each text a file")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			_, err := load(t, filepath.Join("invalid", filepath.Base(file)), "ebpf")
			require.Error(t, err)
			// The decoder puts a head of its own before an error of Unmarshal.
			_, text, found := strings.Cut(err.Error(), "\n\n'' ")
			if !found {
				text = err.Error()
			}
			require.Equal(t, want[name], text)
		})
	}
}

// texts is a provider of a configuration and of the values that it refers to.
type texts struct{}

func (texts) Scheme() string                 { return "text" }
func (texts) Shutdown(context.Context) error { return nil }

func (texts) Retrieve(_ context.Context, uri string, _ confmap.WatcherFunc) (*confmap.Retrieved, error) {
	text := map[string]string{
		"text:file": "targets: {include: [{container_id: \"${text:id}\"}]}", "text:id": "123456789012",
	}[uri]
	return confmap.NewRetrievedFromYAML([]byte(text))
}

// TestTextFromTheEnvironment checks that text that looks like a number needs no quotes where the environment gives it.
func TestTextFromTheEnvironment(t *testing.T) {
	resolver, err := confmap.NewResolver(confmap.ResolverSettings{
		URIs:              []string{"text:file"},
		ProviderFactories: []confmap.ProviderFactory{confmap.NewProviderFactory(func(confmap.ProviderSettings) confmap.Provider { return texts{} })},
	})
	require.NoError(t, err)
	conf, err := resolver.Resolve(t.Context())
	require.NoError(t, err)
	config := createDefaultConfig().(*Config)
	require.NoError(t, conf.Unmarshal(config))
	require.Equal(t, []SelectorConfig{{ContainerID: "123456789012"}}, config.Targets.Include)
}

func TestEngineConfig(t *testing.T) {
	c, err := load(t, "config.yaml", "ebpf/all")
	require.NoError(t, err)
	got := engineConfig(c, observe.Signals{Profiles: true, Metrics: true})
	require.Equal(t, engine.Config{
		RootPath: "/proc/self/root",
		Include: []process.Selector{{
			PID: 17, Comm: "^nginx", Exe: "/usr/sbin/*", Cmdline: "worker", Port: 8080, ContainerID: "0123456789AB",
			PodUID: "^8d3a", Service: "checkout", Set: map[string]string{"service.name": "checkout", "team": "pay"},
		}, {Comm: "redis"}},
		Exclude:           []process.Selector{{Exe: "/usr/bin/**"}},
		ScanInterval:      time.Minute,
		Observe:           []observe.Plan{&oncpu.Options{Common: observe.Common{Targets: []process.Selector{{Port: 65535}}, ReportInterval: 10 * time.Minute}, Options: stacks.Options{UserStacks: true, MaxDepth: 1}, Period: time.Second, Event: oncpu.EventCycles}, &offcpu.Options{Common: observe.Common{Targets: []process.Selector{{Comm: "redis"}}, ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, MaxDepth: 64}, MaxBlock: 24 * time.Hour}, &memory.Options{Common: observe.Common{Targets: []process.Selector{{Comm: "redis"}}, ReportInterval: time.Second}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(64 << 20)}, &network.Plan{Common: observe.Common{Targets: []process.Selector{{Comm: "redis"}}, ReportInterval: time.Second}, Role: network.Client, Requests: true, Protocols: []network.Protocol{"dns"}, BufferBytes: 64 << 10, Journal: requests.JournalConfig{Redact: requests.Redaction{Headers: []string{"X-Token"}}}}},
		Symbols:           engine.Symbols{DebugInfo: true, CacheDir: "/var/cache/ebpf", CacheBytes: 64 << 20, Debuginfod: []string{"https://debuginfod.example.com/x"}},
		MetricsByInstance: true,
		MemoryBytes:       32 << 20,
		CPUPercent:        0.5,
	}, got)
	metricsOnly, err := load(t, "config.yaml", "ebpf/metrics")
	require.NoError(t, err)
	require.True(t, engineConfig(metricsOnly, observe.Signals{Metrics: true}).ExponentialHistograms)
	require.False(t, engineConfig(metricsOnly, observe.Signals{Metrics: true}).MetricsByInstance)
	unheard := engineConfig(c, observe.Signals{})
	require.False(t, unheard.Observes(), "no pipeline takes anything")
	metrics := engineConfig(c, observe.Signals{Metrics: true})
	require.NotNil(t, networkPlan(metrics))
	require.Len(t, metrics.Observe, 1)
	metrics.Observe = nil
	require.False(t, metrics.Observes(), "no pipeline takes profiles")
	require.Nil(t, networkPlan(engineConfig(c, observe.Signals{Profiles: true})), "no pipeline takes metrics")
	l4, err := load(t, "config.yaml", "ebpf/l4")
	require.NoError(t, err)
	require.Equal(t, &network.Plan{Common: observe.Common{ReportInterval: 2 * time.Second}, Role: network.Server, Peers: requests.PeerService, BufferBytes: 8 << 20}, networkPlan(engineConfig(l4, observe.Signals{Metrics: true})))
	plain, err := load(t, "config.yaml", "ebpf/network")
	require.NoError(t, err)
	redact := requests.Redaction{Headers: requests.CredentialHeaders(), Query: true}
	require.Equal(t, &network.Plan{Common: observe.Common{ReportInterval: 2 * time.Second}, ResolveNAT: true, Peers: requests.PeerService, Requests: true, Protocols: []network.Protocol{"http", "http2", "dns"}, BufferBytes: 8 << 20, TLS: tls.Libraries, Journal: requests.JournalConfig{Redact: redact}}, networkPlan(engineConfig(plain, observe.Signals{Metrics: true})))
	require.Equal(t, requests.JournalConfig{
		Which: requests.SlowOrError, Slow: 500 * time.Millisecond, Top: 10, Redact: redact,
	}, networkPlan(engineConfig(plain, observe.Signals{Logs: true})).Journal)
	require.Equal(t, requests.JournalConfig{
		Which: requests.AllRequests, Slow: time.Millisecond, Redact: requests.Redaction{Headers: []string{"X-Token"}},
	}, networkPlan(engineConfig(c, observe.Signals{Logs: true, Metrics: true, Traces: true})).Journal, "lookups are logged; spans and samples are of HTTP")
	options := networkOf(plain)
	options.Requests, options.Redact = network.RequestOptions{Log: "all", Slow: time.Hour}, network.RedactOptions{Headers: []string{"X-Secret"}}
	require.Equal(t, requests.JournalConfig{
		Which: requests.AllRequests, Slow: time.Hour, Redact: requests.Redaction{Headers: []string{"X-Secret"}},
	}, networkPlan(engineConfig(plain, observe.Signals{Logs: true})).Journal)
	options.Requests = network.RequestOptions{Log: "none"}
	require.Nil(t, networkPlan(engineConfig(plain, observe.Signals{Logs: true})), "no single request is exported")
	require.Nil(t, networkPlan(engineConfig(l4, observe.Signals{Logs: true})), "it reads no requests")
	profiles := observe.Signals{Profiles: true}
	nothing, err := load(t, "config.yaml", "ebpf/nothing")
	require.NoError(t, err)
	idle := engineConfig(nothing, observe.Signals{Profiles: true, Metrics: true})
	require.False(t, idle.Observes())
	faults, err := load(t, "config.yaml", "ebpf/faults")
	require.NoError(t, err)
	require.Equal(t, &memory.Options{Common: observe.Common{ReportInterval: 5 * time.Second}, Source: memory.SourcePageFaults}, engineConfig(faults, profiles).Observe[0])
	malloc, err := load(t, "config.yaml", "ebpf/malloc")
	require.NoError(t, err)
	require.Equal(t, &memory.Options{Common: observe.Common{ReportInterval: 5 * time.Second}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(512 << 10), Live: true}, engineConfig(malloc, profiles).Observe[0])
}

func threshold(t float64) *float64 { return &t }
