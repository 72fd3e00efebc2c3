// SPDX-License-Identifier: Apache-2.0

package l7

// Descriptor is a protocol whose requests can be exported, as a row of the list in package protocol.
type Descriptor struct {
	// Name is its name in the configuration.
	Name string
	// Number is its number in enum network_protocol of the BPF programs, which recognise its first bytes.
	Number uint8
	// New makes the protocol; nil: the configuration accepts the name, and nothing is parsed yet.
	New func(Options) Protocol
	// Operations are the kinds of operations that its exchanges have.
	Operations []*Semantics
	// TLS: it is parsed within TLS, too.
	TLS bool
	// Monitored: its operations are [Monitored].
	Monitored bool
}

// Options configure a protocol.
type Options struct {
	// Records: exchanges are exported by themselves, too. What only [Operation.Record] needs is parsed.
	Records bool
}

// Protocol is the network.protocol.name of its exchanges.
func (d *Descriptor) Protocol() string { return d.Operations[0].Protocol }

// HasSpans reports whether there are spans of its exchanges.
func (d *Descriptor) HasSpans() bool {
	for _, s := range d.Operations {
		if s.Spans != nil {
			return true
		}
	}
	return false
}

// HasSamples reports whether there are samples of its exchanges.
func (d *Descriptor) HasSamples() bool {
	for _, s := range d.Operations {
		if s.SampleAttributes != nil {
			return true
		}
	}
	return false
}
