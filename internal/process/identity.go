// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// unknownService begins the name of a service that has no name.
const unknownService = "unknown_service"

// instanceNamespace is the namespace that the semantic conventions give for a service.instance.id made by a collector (UUID version 5).
var instanceNamespace = uuid.MustParse("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

// serviceOf is the name that a process has without the attributes of a selector's set.
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

// InstanceOf is the service.instance.id of a process that has none from its environment or a selector: the same for all processes of one
// container, and otherwise for all of a host with the same service.name and executable, so that it outlives a restart.
func (t *Table) InstanceOf(p *model.Process) string {
	name := p.ContainerID
	if name == "" {
		name = t.hostID + "\x00" + p.ServiceName + "\x00" + cmp.Or(p.Executable, p.Comm)
	}
	return uuid.NewSHA1(instanceNamespace, []byte(name)).String()
}

// identify gives a process its service.instance.id, once its service.name is known.
func (t *Table) identify(p *model.Process) {
	if p.ServiceInstanceID == "" {
		p.ServiceInstanceID = t.InstanceOf(p)
	}
}

// creation converts a start time to the wall clock, by the offset of the two
// clocks at the time when the process was first seen.
func (t *Table) creation(startTicks uint64) time.Time {
	sinceBoot := time.Duration(startTicks) * (time.Second / model.TicksPerSecond)
	return time.Unix(0, t.bootOffset.Load()).Add(sinceBoot).UTC()
}

// build makes the description from what was read. The attributes of a selector are not in it yet, nor a service.instance.id that follows from
// them.
func (t *Table) build(e *entry, r *reading) (p *model.Process, service string) {
	p = &model.Process{
		ID: e.id, Comm: r.comm, Executable: r.executable, Arguments: r.arguments, KernelThread: r.kernel,
		CreationTime: e.created, ContainerID: r.container, PodUID: r.pod, Family: r.family,
	}
	service = serviceOf(r.environment, p)
	p.ServiceName, p.ServiceInstanceID = service, r.environment.serviceInstance
	return p, service
}

// infer describes a process that exited before it was read, from the process it was forked from and, where it ran another program, that
// program's comm, executable and environment. Its container is that of its parent, and so is its service where its own environment is not
// known.
func (t *Table) infer(e *entry) *model.Process {
	p, _ := t.inferSelf(e)
	if e.include != noInclude {
		applySet(p, t.rules.include.matchers[e.include].set)
	}
	t.identify(p)
	return p
}

// inferSelf is infer without the attributes of a selector; service is the name that selectors compare.
func (t *Table) inferSelf(e *entry) (p *model.Process, service string) {
	p = &model.Process{}
	named, shared := false, false
	var own environment
	if e.execution != nil {
		own = e.execution.environment
	}
	if e.base != nil {
		*p = *e.base
		named = p.ServiceName != serviceOf(environment{}, e.base)
		shared = p.ServiceInstanceID != t.InstanceOf(e.base)
	}
	p.ID, p.CreationTime, p.KernelThread = e.id, e.created, e.kernel
	if e.executed || e.base == nil {
		p.Comm, p.Executable, p.Arguments, p.Family = e.comm, "", nil, model.ProcessID{}
		if e.execution != nil {
			p.Executable, p.Arguments = e.execution.executable, e.execution.arguments
		}
	}
	if e.execution != nil && e.execution.whole {
		named, shared = false, shared && p.ContainerID != "" // what its parent's environment names is not its own
	}
	if !named || own.serviceName != "" {
		p.ServiceName = serviceOf(own, p)
	}
	if !shared || own.serviceInstance != "" {
		p.ServiceInstanceID = own.serviceInstance
	}
	return p, p.ServiceName
}
