// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"
)

// Resource is the exported description of a process as a comparable value: the points
// of two programs with equal descriptions must be exported as one.
type Resource struct {
	id                                                     ProcessID
	name, executable, service, instance, container, podUID string
	created                                                time.Time
	attributes                                             string
}

// ResourceOf returns the resource of a process; without one, the zero Resource.
func ResourceOf(p *Process) Resource {
	if p == nil {
		return Resource{}
	}
	r := Resource{
		id: p.ID, name: p.ExecutableName(), executable: p.Executable, service: p.ServiceName, instance: p.ServiceInstanceID,
		container: p.ContainerID, podUID: p.PodUID, created: p.CreationTime.Round(0).UTC(),
	}
	if len(p.Attributes) > 0 {
		r.attributes = fmt.Sprintf("%q", p.Attributes) // in the order of their keys
	}
	return r
}
