// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// FoldJSON is [Fold] of one message in OTLP/JSON, such as a line that the file
// exporter writes.
func FoldJSON(message []byte, yield func(FoldedSample) error) error {
	p, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(message)
	if err != nil {
		return fmt.Errorf("parsing OTLP JSON of %d bytes: %w", len(message), err)
	}
	return Fold(p, yield)
}
