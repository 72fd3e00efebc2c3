// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// paneRows is how many rows requests, connections and triggers have where lists are printed one after the other.
	paneRows = 10
	// printedColumns is the width that their columns of names are fitted into.
	printedColumns = 160
)

// printer writes lists one after the other, for an output that is no terminal.
type printer struct {
	out     io.Writer
	rows    int
	byTotal bool
}

func (p *printer) note(text string) error { return p.write(text + "\n") }

// update waits for the next list: nothing is redrawn.
func (p *printer) update(data) error { return nil }

// list writes the hottest functions, what else was read, and the footer if there is one.
func (p *printer) list(d data) error {
	text := format(d.top, p.rows, p.byTotal)
	if less := reduced(d.reduced); less != "" {
		text = slices.Insert(text, 1, less)
	}
	for _, pane := range []pane{
		requestPane(d.requests, byRate, printedColumns), connectionPane(d.connections, printedColumns), triggerPane(d.triggers, printedColumns),
	} {
		if len(pane.rows) == 0 {
			continue
		}
		text = append(text, "")
		for _, l := range pane.lines(paneRows+1, printedColumns) {
			text = append(text, strings.TrimRight(l.Text, " "))
		}
	}
	if d.footer != "" {
		text = append(text, d.footer)
	}
	return p.write(strings.Join(text, "\n") + "\n\n")
}

func (p *printer) write(text string) error {
	if _, err := io.WriteString(p.out, text); err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	return nil
}
