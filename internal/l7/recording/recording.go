// SPDX-License-Identifier: Apache-2.0

// Package recording reads the conversations that tests of protocols keep in testdata: what a server has read and written, and what its
// clients have counted.
//
// A line begins with a mark: "+" and "-" are the beginning and the end of a connection, "<" and ">" what the server read and wrote, each with
// the connection's number; the text follows as a string of Go. "=" is an exchange as a client has counted it, "#" a comment.
package recording

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Marks of steps.
const (
	Begin = "+"
	End   = "-"
	Read  = "<"
	Write = ">"
)

// longest bounds a line.
const longest = 1 << 20

// Step is one line about a connection.
type Step struct {
	Mark, Connection string
	Text             string // of Read and Write
}

// File returns the steps of a recording, and the exchanges that clients have counted.
func File(path string) (steps []Step, counted []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a recording: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		mark, rest, _ := strings.Cut(lines.Text(), " ")
		step := Step{Mark: mark}
		switch mark {
		case "#":
			continue
		case "=":
			counted = append(counted, rest)
			continue
		case Begin, End:
			step.Connection = rest
		case Read, Write:
			var quoted string
			step.Connection, quoted, _ = strings.Cut(rest, " ")
			if step.Text, err = strconv.Unquote(quoted); err != nil {
				return nil, nil, fmt.Errorf("%s: the text of %q: %w", path, lines.Text(), err)
			}
		default:
			return nil, nil, fmt.Errorf("%s: unknown line %q", path, lines.Text())
		}
		steps = append(steps, step)
	}
	return steps, counted, lines.Err()
}
