// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"
)

// Resource is what is told of a process, as something that can be compared: of two
// programs of which the same is told the points have to be told as one.
type Resource struct {
	id                                                     ProcessID
	name, executable, service, instance, container, podUID string
	created                                                time.Time
	attributes                                             string
}

// ResourceOf returns the zero Resource of nobody.
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
