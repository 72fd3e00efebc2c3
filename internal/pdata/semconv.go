// SPDX-License-Identifier: Apache-2.0

package pdata

// SchemaURL is the version of the semantic conventions that the names below
// are taken from.
const SchemaURL = "https://opentelemetry.io/schemas/1.44.0"

// Resource attributes, by the semantic conventions.
const (
	KeyServiceName           = "service.name"
	KeyServiceInstanceID     = "service.instance.id"
	KeyProcessPID            = "process.pid"
	KeyProcessExecutableName = "process.executable.name"
	KeyProcessExecutablePath = "process.executable.path"
	KeyProcessCreationTime   = "process.creation.time"
	KeyContainerID           = "container.id"
	KeyK8SPodUID             = "k8s.pod.uid"
)

// Attributes of samples, locations and mappings, by the semantic conventions.
const (
	KeyThreadID       = "thread.id"
	KeyThreadName     = "thread.name"
	KeyFrameType      = "profile.frame.type"
	KeyBuildIDGNU     = "process.executable.build_id.gnu"
	KeyBuildIDGo      = "process.executable.build_id.go"
	KeyBuildIDHTLHash = "process.executable.build_id.htlhash"
)

// Attributes of our own, see the telemetry contract.
const (
	// KeyStackError is set on samples whose stack is cut or missing.
	KeyStackError = "ebpf.stack.error"
	// KeyBlockReason is set on samples of off-CPU time.
	KeyBlockReason = "ebpf.block.reason"
	// KeyTaskID is set on profiles that a task or a policy started.
	KeyTaskID = "ebpf.task.id"
	// KeyRuntimeLanguage and KeyRuntimeNames are set on profiles of processes with a
	// language runtime: a value of profile.frame.type, and where names come from.
	KeyRuntimeLanguage = "ebpf.runtime.language"
	KeyRuntimeNames    = "ebpf.runtime.names"
)
