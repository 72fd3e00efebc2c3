// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"net/netip"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// MostTexts is the number of texts of a series in addition to its target.
	MostTexts = 5
	// MostValues is the number of values of a series in addition to the duration.
	MostValues = 4
)

// Key identifies a series of a process. Its texts outlive the exchange: they are constants or come from a [Dictionary]. What Texts and
// Number have is up to the protocol.
type Key struct {
	Semantics *Semantics
	Role      Role
	// TLS: the exchange was carried within TLS. It is set only if the series has an attribute for it.
	TLS bool
	// Overflow makes it the series of exchanges that have none of their own. Only Semantics and Role are set then.
	Overflow bool
	// Target is what was asked for, with few values, such as a route. Logs and spans of the exchange have it, too.
	Target    string
	Texts     [MostTexts]string
	Number    int64
	ErrorType string
	// Server is that of a client's exchange as the request names it, Address where its connection leads to if the request names none.
	Server  Server
	Address netip.AddrPort
}

// Equal reports whether both are the same, faster than == if most texts are empty or from the same dictionary.
func (k *Key) Equal(o *Key) bool {
	if k.Semantics != o.Semantics || k.Number != o.Number || k.Role != o.Role || k.TLS != o.TLS || k.Overflow != o.Overflow ||
		!equal(k.Target, o.Target) || !equal(k.ErrorType, o.ErrorType) {
		return false
	}
	for i := range k.Texts {
		if !equal(k.Texts[i], o.Texts[i]) {
			return false
		}
	}
	return k.Server.Port == o.Server.Port && equal(k.Server.Host, o.Server.Host) && k.Address == o.Address
}

func equal(a, b string) bool { return len(a) == len(b) && (a == "" || a == b) }

// Server is a server as requests name it; its port is 0 if they do not name one.
type Server struct {
	Host string
	Port uint16
}

// AppendServer appends the server of a client's exchange.
func (k *Key) AppendServer(list []model.Attribute) []model.Attribute {
	if k.Server.Host != "" {
		return AppendServer(list, k.Server.Host, int64(k.Server.Port))
	}
	if !k.Address.IsValid() {
		return list
	}
	return append(list, model.Text("server.address", k.Address.Addr().String()), model.Int("server.port", int64(k.Address.Port())))
}

// AppendServer appends a host and a port as far as they are known.
func AppendServer(list []model.Attribute, host string, port int64) []model.Attribute {
	if host != "" {
		list = append(list, model.Text("server.address", host))
	}
	if host != "" && port != 0 {
		list = append(list, model.Int("server.port", port))
	}
	return list
}

// AppendText appends a text if it is known.
func AppendText(list []model.Attribute, key, value string) []model.Attribute {
	if value == "" {
		return list
	}
	return append(list, model.Text(key, value))
}

// Count is an exchange that is being counted.
type Count struct {
	Key *Key
	// Values are counted in addition to the duration, or are [Unknown]. A value of a metric in seconds is in ns.
	Values [MostValues]int64
	// Peer is the remote address of the connection. TLS: it carries TLS.
	Peer netip.AddrPort
	TLS  bool
	// Redaction is the configuration.
	Redaction *Redaction
	// Names are those of the process, Unnamed counts what found no place there.
	Names   *Names
	Unnamed *Unnamed
}

// Begin begins to count an exchange with operations of this kind in another series.
func (c *Count) Begin(e *Exchange, of *Semantics) {
	k := c.Key
	*k = Key{}
	k.Semantics, k.Role, k.ErrorType = of, e.Role, e.ErrorType
	c.Values = [MostValues]int64{Unknown, Unknown, Unknown, Unknown}
}

// Text returns a text from the wire as a string of the process's dictionary, "" and false if the dictionary is full, which it counts.
func (c *Count) Text(d *Dictionary, value []byte) (known string, ok bool) {
	known, ok = c.Names.values(d).(*Texts).of(value)
	if !ok {
		c.Unnamed.full(d)
	}
	return known, ok
}

// Dictionary returns the values of the process for a dictionary that has a New of its own.
func (c *Count) Dictionary(d *Dictionary) Values { return c.Names.values(d) }

// Full counts the exchange as one without a value of a dictionary.
func (c *Count) Full(d *Dictionary) { c.Unnamed.full(d) }

// Overflow has the exchange count in the overflow series.
func (c *Count) Overflow() {
	*c.Key = Key{Semantics: c.Key.Semantics, Role: c.Key.Role, Overflow: true}
}

// SetServer completes the key of a client's exchange with the server: the host that the request names, which may have a port and be empty,
// else the address of the connection.
func (c *Count) SetServer(host []byte) {
	if n := len(host); n > 0 && n <= LongestHost {
		named, known := c.Names.server(host)
		if !known {
			c.Unnamed.Hosts++
		}
		if c.Key.Server = named; named.Host != "" && named.Port == 0 {
			c.Key.Server.Port = c.Peer.Port()
		}
	}
	if c.Key.Server.Host == "" && c.Peer.Port() != 0 {
		c.Key.Server, c.Key.Address = Server{}, c.Peer
	}
}
