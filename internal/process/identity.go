// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// unknownService begins the name of a service that nothing names.
const unknownService = "unknown_service"

// instanceNamespace is the name space that the semantic conventions give for
// a service.instance.id made by a collector (UUID version 5).
var instanceNamespace = uuid.MustParse("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

// serviceOf is the name that a process has by itself: without a selector's set.
func serviceOf(e environment, p *model.Process) string {
	if e.serviceName != "" {
		return e.serviceName
	}
	name := p.ExecutableName()
	if name == "" {
		return unknownService
	}
	return unknownService + ":" + name
}

// instanceOf is the same for all processes of one container, and otherwise
// unlike that of any process of any host.
func (t *Table) instanceOf(e environment, p *model.Process) string {
	if e.serviceInstance != "" {
		return e.serviceInstance
	}
	name := p.ContainerID
	if name == "" {
		name = fmt.Sprintf("%s/%d/%d", t.bootID, p.ID.PID, p.ID.StartTicks)
	}
	return uuid.NewSHA1(instanceNamespace, []byte(name)).String()
}

// InstanceOf is the service.instance.id of a process of which nothing but its
// identity is known: as of one that is in no container and sets none.
func (t *Table) InstanceOf(id model.ProcessID) string {
	return t.instanceOf(environment{}, &model.Process{ID: id})
}

// creation converts a start time to the wall clock, by the offset of the two
// clocks at the time when the process was first seen.
func (t *Table) creation(startTicks uint64) time.Time {
	sinceBoot := time.Duration(startTicks) * (time.Second / model.TicksPerSecond)
	return time.Unix(0, t.bootOffset.Load()).Add(sinceBoot).UTC()
}

// build makes the value for what was read; the attributes of a selector are
// not in it yet.
func (t *Table) build(e *entry, r *reading) (p *model.Process, service string) {
	p = &model.Process{
		ID: e.id, Comm: r.comm, Executable: r.executable, Arguments: r.arguments, KernelThread: r.kernel,
		CreationTime: e.created, ContainerID: r.container, PodUID: r.pod, Family: r.family,
	}
	service = serviceOf(r.environment, p)
	p.ServiceName, p.ServiceInstanceID = service, t.instanceOf(r.environment, p)
	return p, service
}

// infer describes a process that ended before it was read, from the process it
// was forked from and, where it ran another program, that program's comm. Its
// container and, where it had one in its environment, its service are those of
// its parent.
func (t *Table) infer(e *entry) *model.Process {
	p := &model.Process{}
	named, shared := false, false
	if e.base != nil {
		*p = *e.base
		named = p.ServiceName != serviceOf(environment{}, e.base)
		shared = p.ServiceInstanceID != t.instanceOf(environment{}, e.base)
	}
	p.ID, p.CreationTime, p.KernelThread = e.id, e.created, e.kernel
	if e.executed || e.base == nil {
		p.Comm, p.Executable, p.Arguments, p.Family = e.comm, "", nil, model.ProcessID{}
	}
	if !named {
		p.ServiceName = serviceOf(environment{}, p)
	}
	if !shared {
		p.ServiceInstanceID = t.instanceOf(environment{}, p)
	}
	if e.include != noInclude {
		applySet(p, t.rules.include.matchers[e.include].set)
	}
	return p
}
