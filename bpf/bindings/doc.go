// SPDX-License-Identifier: Apache-2.0

// Package bindings holds the compiled BPF programs and the Go types of their
// maps and events. Objects and bindings are committed, so that building the
// receiver needs no C compiler; the C is one folder up, one file for each object.
//
// `make generate` compiles them anew with Debian's clang-19.
package bindings

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type process_event -type process_event_type -type scope_bit -type scope_entry -type process_loss Process ../process.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type process_usage Usage ../usage.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type stack_entry -type stack_table -type unwind_rule -type unwind_page -type unwind_mapping -type unwind_space -type unwind_state -type unwind_end -type unwind_cfa -type unwind_save OnCPU ../oncpu.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type stack_entry -type stack_table -type offcpu_thread -type offcpu_cpu -type block_reason OffCPU ../offcpu.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 MemoryFaults ../memory_faults.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type live_key -type live_allocation -type allocation_count -type unwind_cpu MemoryMalloc ../memory_malloc.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type network_series -type network_record -type network_histogram -type network_tuple -type network_process -type network_listener -type network_socket -type network_listed_socket -type network_count_key -type network_role -type network_transport -type network_operation -type network_wait -type network_count_kind -type network_drop -type network_walk -type network_loss -type network_segment -type network_protocol -type network_segment_kind -type network_request_record -type network_end -type network_segment_loss -type network_segment_gap Network ../network.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go@v0.22.0 -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -type network_tls_function -type network_path -type network_value_key -type network_value NetworkCapture ../network_capture.bpf.c -- -I.. -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3
