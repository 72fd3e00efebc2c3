// SPDX-License-Identifier: Apache-2.0

package rfc9110

import "bytes"

// SplitPath parts a path from its query, which is nil where there is none.
func SplitPath(target []byte) (path, query []byte) {
	if mark := bytes.IndexByte(target, '?'); mark >= 0 {
		return target[:mark], target[mark+1:]
	}
	return target, nil
}
