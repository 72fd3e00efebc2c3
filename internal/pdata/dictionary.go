// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// attribute is one entry of the attribute table. Text and number exclude each
// other; no attribute has a unit.
type attribute struct {
	key    string
	text   string
	number int64
	isText bool
}

// dictionary fills the dictionary of one message and knows the index of what
// is already in it. Model values are found by pointer, and once more by value
// when the pointer is new: caches may have forgotten a value and made it again.
//
// Index 0 of every table is the zero value, so that an index of 0 means unset.
type dictionary struct {
	out pprofile.ProfilesDictionary
	// size is an upper bound of the dictionary's bytes in protobuf.
	size int

	strings        map[string]int32
	attributes     map[attribute]int32
	mappings       map[*model.Mapping]int32
	mappingValues  map[model.Mapping]int32
	functions      map[*model.Function]int32
	functionValues map[functionKey]int32
	frames         map[*model.Frame]int32
	locationValues map[locationKey]int32
	threads        map[threadKey]threadIndices
	stacks         stackIndex
	// frameTypes is a handful, searched one by one.
	frameTypes []frameTypeIndex

	// last has the lengths of the tables of the message before, which the next
	// ones are likely to need.
	last tableLengths
	// indices and lines are scratch space.
	indices []int32
	lines   []lineIndex
}

// makeDictionary returns a dictionary with empty maps, to be given an output
// by begin.
func makeDictionary() dictionary {
	return dictionary{
		strings:        map[string]int32{},
		attributes:     map[attribute]int32{},
		mappings:       map[*model.Mapping]int32{},
		mappingValues:  map[model.Mapping]int32{},
		functions:      map[*model.Function]int32{},
		functionValues: map[functionKey]int32{},
		frames:         map[*model.Frame]int32{},
		locationValues: map[locationKey]int32{},
		threads:        map[threadKey]threadIndices{},
		stacks:         makeStackIndex(),
	}
}

// tableLengths are the lengths of those tables that grow with the load.
type tableLengths struct {
	strings, functions, locations, stacks int
}

func lengthsOf(d pprofile.ProfilesDictionary) tableLengths {
	return tableLengths{d.StringTable().Len(), d.FunctionTable().Len(), d.LocationTable().Len(), d.StackTable().Len()}
}

// reserve makes room in d.
func (l tableLengths) reserve(d pprofile.ProfilesDictionary) {
	d.StringTable().EnsureCapacity(l.strings)
	d.FunctionTable().EnsureCapacity(l.functions)
	d.LocationTable().EnsureCapacity(l.locations)
	d.StackTable().EnsureCapacity(l.stacks)
}

// begin starts a new message. The maps must be empty.
func (d *dictionary) begin(out pprofile.ProfilesDictionary) {
	d.out = out
	d.size = 0
	d.last.reserve(out)
	out.StringTable().Append("")
	out.AttributeTable().AppendEmpty()
	out.MappingTable().AppendEmpty()
	out.FunctionTable().AppendEmpty()
	out.LocationTable().AppendEmpty()
	out.LinkTable().AppendEmpty()
	out.StackTable().AppendEmpty()
	d.strings[""] = 0
	d.stacks.begin()
}

// end forgets the message and every model value.
func (d *dictionary) end() {
	d.last = lengthsOf(d.out)
	d.out = pprofile.ProfilesDictionary{}
	clear(d.strings)
	clear(d.attributes)
	clear(d.mappings)
	clear(d.mappingValues)
	clear(d.functions)
	clear(d.functionValues)
	clear(d.frames)
	clear(d.locationValues)
	clear(d.threads)
	d.frameTypes = d.frameTypes[:0]
	d.stacks.end()
}

// entries is the number of entries of all tables, a measure of how large the
// maps have grown.
func (d *dictionary) entries() int {
	return len(d.strings) + len(d.attributes) + len(d.frames) + len(d.functions) +
		len(d.mappings) + len(d.stacks.entries)
}

// string returns the index of s in the string table.
func (d *dictionary) string(s string) int32 {
	if i, ok := d.strings[s]; ok {
		return i
	}
	if valid := validText(s); valid != s {
		i := d.string(valid)
		d.strings[s] = i
		return i
	}
	table := d.out.StringTable()
	i := int32(table.Len())
	table.Append(s)
	d.strings[s] = i
	d.size += sizeString(len(s))
	return i
}

// text returns the index of a string attribute.
func (d *dictionary) text(key, value string) int32 {
	return d.attribute(attribute{key: key, text: value, isText: true})
}

// number returns the index of an integer attribute.
func (d *dictionary) number(key string, value int64) int32 {
	return d.attribute(attribute{key: key, number: value})
}

func (d *dictionary) attribute(a attribute) int32 {
	if i, ok := d.attributes[a]; ok {
		return i
	}
	if valid := validText(a.text); valid != a.text {
		i := d.text(a.key, valid)
		d.attributes[a] = i
		return i
	}
	table := d.out.AttributeTable()
	i := int32(table.Len())
	entry := table.AppendEmpty()
	entry.SetKeyStrindex(d.string(a.key))
	if a.isText {
		entry.Value().SetStr(a.text)
	} else {
		entry.Value().SetInt(a.number)
	}
	d.attributes[a] = i
	d.size += sizeHeader + sizeIndex(entry.KeyStrindex()) + sizeHeader + sizeNumber + sizeString(len(a.text))
	return i
}
