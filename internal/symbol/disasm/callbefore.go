// SPDX-License-Identifier: Apache-2.0

package disasm

// CallSite is what is known of the instruction before an address.
type CallSite struct {
	Flow   Flow // Call, CallIndirect, or Onward if it is no call
	Target uint64
}

// CallBefore finds a call among the last bytes before an address. Instructions have no mark at their end: if there are several readings, it
// prefers a direct call to an address with code.
func CallBefore(decode Decoder, code []byte, addr uint64, isCode func(uint64) bool) CallSite {
	found := CallSite{}
	for n := 2; n <= len(code); n++ {
		in := decode(code[len(code)-n:], addr-uint64(n)) //nolint:gosec // up to 8
		switch {
		case in.Size != n:
		case in.Flow == Call && isCode(in.Target):
			return CallSite{Flow: Call, Target: in.Target}
		case in.Flow == CallIndirect:
			found.Flow = CallIndirect
		}
	}
	return found
}
