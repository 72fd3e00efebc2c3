// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// creationTimeLayout is RFC 3339 with milliseconds, finer than the clock tick
// in which the kernel reports start times.
const creationTimeLayout = "2006-01-02T15:04:05.000Z07:00"

// PutProcess writes the resource attributes of p, those of its selector last,
// so that what a user sets wins. A service instance, which has no ID, has no process.* attributes. A nil p is the host as a whole and has none.
func PutProcess(attrs pcommon.Map, p *model.Process) {
	if p == nil {
		return
	}
	attrs.EnsureCapacity(8 + len(p.Attributes))
	putText(attrs, KeyServiceName, p.ServiceName)
	putText(attrs, KeyServiceInstanceID, p.ServiceInstanceID)
	if p.ID != (model.ProcessID{}) {
		attrs.PutInt(KeyProcessPID, int64(p.ID.PID))
	}
	putText(attrs, KeyProcessExecutableName, p.ExecutableName())
	putText(attrs, KeyProcessExecutablePath, p.Executable)
	if !p.CreationTime.IsZero() {
		attrs.PutStr(KeyProcessCreationTime, p.CreationTime.UTC().Format(creationTimeLayout))
	}
	putText(attrs, KeyContainerID, p.ContainerID)
	putText(attrs, KeyK8SPodUID, p.PodUID)
	for _, key := range slices.Sorted(maps.Keys(p.Attributes)) {
		attrs.PutStr(validText(key), validText(p.Attributes[key]))
	}
}

// putText writes a string attribute unless it is unknown.
func putText(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, validText(value))
	}
}

// sizeAttributes is an upper bound of what attrs take in a profiles message,
// where their strings move to the string table.
func sizeAttributes(attrs pcommon.Map) int {
	n := 0
	for key, value := range attrs.All() {
		n += sizeHeader + sizeString(len(key)) + sizeNumber + sizeHeader + sizeNumber
		if value.Type() == pcommon.ValueTypeStr {
			n += sizeString(len(value.Str()))
		}
	}
	return n
}
