// SPDX-License-Identifier: Apache-2.0

package pdata

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// functionKey identifies a function by value; names are string indices.
type functionKey struct {
	name, systemName, filename int32
	startLine                  int64
}

// function returns the index of f in the function table, 0 for nil.
func (d *dictionary) function(f *model.Function) int32 {
	if f == nil {
		return 0
	}
	if i, ok := d.functions[f]; ok {
		return i
	}
	key := functionKey{d.string(f.Name), d.string(f.SystemName), d.string(f.Filename), f.StartLine}
	i, ok := d.functionValues[key]
	if !ok {
		i = d.addFunction(key)
		d.functionValues[key] = i
	}
	d.functions[f] = i
	return i
}

func (d *dictionary) addFunction(key functionKey) int32 {
	table := d.out.FunctionTable()
	i := int32(table.Len())
	fn := table.AppendEmpty()
	fn.SetNameStrindex(key.name)
	fn.SetSystemNameStrindex(key.systemName)
	fn.SetFilenameStrindex(key.filename)
	fn.SetStartLine(key.startLine)
	d.size += sizeHeader + sizeIndex(key.name) + sizeIndex(key.systemName) + sizeIndex(key.filename) +
		1 + sizeVarint(uint64(key.startLine))
	return i
}
