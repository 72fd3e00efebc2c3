// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes, written as one, or with a unit such as 512KiB.
type ByteSize int64

var _ encoding.TextUnmarshaler = (*ByteSize)(nil)

// units are what may follow the number, the largest first.
var units = []struct {
	name  string
	bytes ByteSize
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// UnmarshalText reads a number and a unit.
func (s *ByteSize) UnmarshalText(text []byte) error {
	for _, unit := range units {
		number, ok := strings.CutSuffix(string(text), unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(number, " "), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(unit.bytes) {
			break
		}
		*s = ByteSize(n) * unit.bytes
		return nil
	}
	return fmt.Errorf("%q is no size in bytes, such as 512KiB", text)
}

// String writes the size with the largest unit that it is a whole number of.
func (s ByteSize) String() string {
	for _, unit := range units {
		if s >= unit.bytes && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
