// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// resource is what is told of a process, as something that can be compared: of two
// programs of which the same is told the points have to be told as one.
type resource struct {
	id                                                     model.ProcessID
	name, executable, service, instance, container, podUID string
	created                                                time.Time
	attributes                                             string
}

// resourceOf returns the zero resource of nobody.
func resourceOf(p *model.Process) resource {
	if p == nil {
		return resource{}
	}
	r := resource{
		id: p.ID, name: p.ExecutableName(), executable: p.Executable, service: p.ServiceName, instance: p.ServiceInstanceID,
		container: p.ContainerID, podUID: p.PodUID, created: p.CreationTime.Round(0).UTC(),
	}
	if len(p.Attributes) > 0 {
		r.attributes = fmt.Sprintf("%q", p.Attributes) // in the order of their keys
	}
	return r
}
