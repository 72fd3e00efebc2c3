// SPDX-License-Identifier: Apache-2.0

package pdata

import "math/bits"

// The estimates below are upper bounds of what a value takes in protobuf, by
// https://protobuf.dev/programming-guides/encoding/: field numbers of the
// profiles messages are below 16, so that every tag is one byte.
const (
	// sizeHeader is the tag and the length of a nested message of less than 2 MiB.
	sizeHeader = 1 + 3
	// sizeNumber is the tag and the longest varint.
	sizeNumber = 1 + 10
	// sizeMessage is what a message has besides its tables and samples: the
	// zero values of the dictionary and the headers of the top level.
	sizeMessage = 64
)

// sizeVarint is the length of v as a varint.
func sizeVarint(v uint64) int {
	return (bits.Len64(v|1) + 6) / 7
}

// sizeIndex is the length of a dictionary index with its tag.
func sizeIndex(i int32) int {
	return 1 + sizeVarint(uint64(uint32(i)))
}

// sizeString is the length of a string or bytes field of n bytes.
func sizeString(n int) int {
	return 1 + sizeVarint(uint64(n)) + n
}

// sizePacked is the length of a packed field of indices.
func sizePacked(indices []int32) int {
	n := 0
	for _, i := range indices {
		n += sizeVarint(uint64(uint32(i)))
	}
	return sizeHeader + n
}
