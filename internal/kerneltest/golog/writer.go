// SPDX-License-Identifier: Apache-2.0

package golog

import "bytes"

// maxLine is how long a line may be; what is beyond of it is left out.
const maxLine = 64 << 10

// Writer adds what is written to a log, line by line. The last line may lack its line feed: Flush adds it.
type Writer struct {
	log  *Log
	line []byte
}

// NewWriter returns a writer to a log.
func NewWriter(log *Log) *Writer { return &Writer{log: log} }

// Write never fails.
func (w *Writer) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		w.line = append(w.line, part[:min(len(part), maxLine-len(w.line))]...)
		if ended {
			w.Flush()
		}
		rest = after
	}
	return len(data), nil
}

// Flush adds the line that has begun, if any.
func (w *Writer) Flush() {
	if len(w.line) > 0 {
		w.log.Add(string(w.line))
	}
	w.line = w.line[:0]
}
