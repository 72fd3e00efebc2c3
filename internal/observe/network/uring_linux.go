// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// errUring: requests that programs transfer by io_uring are not reported.
var errUring = errors.New("requests that programs send and receive by io_uring are not reported, and their connections are counted as io_uring_unseen: " +
	"the kernel has neither the tracepoint io_uring_submit_req (Linux 6.4) nor lets programs run where functions begin and end; " +
	"use a kernel with CONFIG_FUNCTION_TRACER, or a newer one")

// hasUring reports whether the kernel has what bpf/include/network_uring.h reads.
func hasUring(loader *kernel.Loader) (bool, error) {
	for _, tracepoint := range []string{"io_uring_submit_req", "io_uring_complete"} {
		if has, err := loader.HasTracepoint(tracepoint); !has || err != nil {
			return false, err
		}
	}
	for _, field := range []struct{ of, name string }{
		{"io_kiocb", "async_data"}, {"io_kiocb", "link"}, {"io_kiocb", "ctx"}, {"io_kiocb", "cqe"}, {"io_sr_msg", "done_io"}, {"io_rw", "addr"},
		{"io_submit_state", "link"}, {"task_struct", "io_uring"},
	} {
		if has, err := loader.HasField(field.of, field.name); !has || err != nil {
			return false, err
		}
	}
	for _, structure := range []string{"io_async_msghdr", "io_async_rw"} {
		if has, err := loader.HasStruct(structure); !has || err != nil {
			return false, err
		}
	}
	return true, nil
}

// followsUring reports whether programs run that follow io_uring requests.
func (f features) followsUring() bool { return f.requests && f.uring && !f.trampolines }

// uringPrograms returns these programs.
func (f features) uringPrograms() []string {
	if !f.followsUring() {
		return nil
	}
	return []string{bindings.NetworkCaptureProgUringSubmits, bindings.NetworkCaptureProgUringCompletes}
}

// withoutUring is why requests by io_uring are not reported; nil if they are, or if none are configured.
func (f features) withoutUring() error {
	if !f.requests || f.uring || f.trampolines {
		return nil
	}
	return errUring
}
