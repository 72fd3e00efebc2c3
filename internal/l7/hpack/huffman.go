// SPDX-License-Identifier: Apache-2.0

package hpack

import (
	"strings"

	"golang.org/x/net/http2/hpack"
)

// huffmanTables have what eight bits of a code mean, in the first table, or the next eight of a longer one, in a table that the first
// names: the number of a table, or leaf with the length of the rest of the code and its symbol. 0 is no code.
var huffmanTables = makeHuffmanTables()

const (
	leaf       = 1 << 15
	lengthBits = 8 // where a leaf's length is
)

func makeHuffmanTables() [][256]uint16 {
	tables := make([][256]uint16, 1)
	for symbol := range 256 {
		text := string([]byte{byte(symbol)})
		code, length := uint64(0), int(hpack.HuffmanEncodeLength(strings.Repeat(text, 8))) // eight codes have as many bytes as one has bits
		for _, b := range hpack.AppendHuffmanString(nil, text) {
			code = code<<8 | uint64(b)
		}
		code >>= -length & 7
		at := 0
		for ; length > 8; length -= 8 {
			first := byte(code >> (length - 8))
			if tables[at][first] == 0 {
				tables = append(tables, [256]uint16{})
				tables[at][first] = uint16(len(tables) - 1)
			}
			at = int(tables[at][first])
		}
		begin := int(code<<(8-length)) & 0xff
		for i := range 1 << (8 - length) {
			tables[at][begin+i] = uint16(leaf | length<<lengthBits | symbol)
		}
	}
	return tables
}

// appendDecoded appends what a text in Huffman's code stands for. ok is false if it is none: RFC 7541, section 5.2.
func appendDecoded(decoded, coded []byte) (_ []byte, ok bool) {
	const lengthMask = 0xf
	bits, n, at := uint64(0), 0, uint16(0) // n of them were not read
	for _, b := range coded {
		bits, n = bits<<8|uint64(b), n+8
		for n >= 8 {
			e := huffmanTables[at][byte(bits>>(n-8))]
			switch {
			case e == 0:
				return decoded, false
			case e&leaf != 0:
				decoded, n, at = append(decoded, byte(e)), n-int(e>>lengthBits&lengthMask), 0
			default:
				n, at = n-8, e
			}
		}
	}
	for n > 0 {
		e := huffmanTables[at][byte(bits<<(8-n))]
		length := int(e >> lengthBits & lengthMask)
		if e&leaf == 0 || length > n {
			break
		}
		decoded, n, at = append(decoded, byte(e)), n-length, 0
	}
	padding := byte(1<<n - 1)
	return decoded, at == 0 && byte(bits)&padding == padding
}
