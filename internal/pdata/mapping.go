// SPDX-License-Identifier: Apache-2.0

package pdata

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// mapping returns the index of m in the mapping table, 0 for nil.
func (d *dictionary) mapping(m *model.Mapping) int32 {
	if m == nil {
		return 0
	}
	if i, ok := d.mappings[m]; ok {
		return i
	}
	i, ok := d.mappingValues[*m]
	if !ok {
		i = d.addMapping(m)
		d.mappingValues[*m] = i
	}
	d.mappings[m] = i
	return i
}

func (d *dictionary) addMapping(m *model.Mapping) int32 {
	table := d.out.MappingTable()
	i := int32(table.Len())
	out := table.AppendEmpty()
	out.SetMemoryStart(m.Start)
	out.SetMemoryLimit(m.Limit)
	out.SetFileOffset(m.FileOffset)
	out.SetFilenameStrindex(d.string(m.Path))
	for _, id := range [...]struct{ key, value string }{
		{KeyBuildIDGNU, m.BuildID.GNU},
		{KeyBuildIDGo, m.BuildID.Go},
		{KeyBuildIDHTLHash, m.BuildID.HTLHash},
	} {
		if id.value != "" {
			out.AttributeIndices().Append(d.text(id.key, id.value))
		}
	}
	d.size += sizeHeader + 3*sizeNumber + sizeIndex(out.FilenameStrindex()) + sizePacked(out.AttributeIndices().AsRaw())
	return i
}
