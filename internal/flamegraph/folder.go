// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	latestName = "flamegraph.html"
	folderName = "flamegraphs"
	// nameLayout names the pages of the past by the end of their interval; names
	// sort by time.
	nameLayout = "2006-01-02T15-04-05Z.html"
	// temporaryName is one name, so that what a killed process leaves does not add up.
	temporaryName = ".flamegraph.tmp"
)

// maxIntervals bounds the intervals of one page: what a browser window has
// pixels to select from. maxKept bounds the bytes of their labels.
const (
	maxIntervals = 60
	maxKept      = 2 * maxTexts
)

// Folder keeps pages: flamegraph.html has the last intervals, which the page
// merges, and flamegraphs has a page of each.
type Folder struct {
	Dir  string
	Keep int // at least 1; what is older is removed

	// last are the intervals of flamegraph.html, the oldest first.
	last []interval
}

// Latest is the path of the page of the last intervals.
func (f *Folder) Latest() string { return filepath.Join(f.Dir, latestName) }

// Past is the path of the folder with a page of each interval.
func (f *Folder) Past() string { return filepath.Join(f.Dir, folderName) }

// Write adds the interval of g, and removes the oldest ones. A browser reads a
// page whole or not at all.
func (f *Folder) Write(g *Graph) error {
	added := g.interval()
	one, err := page([]interval{added})
	if err != nil {
		return err
	}
	f.last = keepLast(append(f.last, added), min(f.Keep, maxIntervals))
	merged, err := page(f.last)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.Past(), 0o755); err != nil {
		return fmt.Errorf("creating the folder of flame graphs: %w", err)
	}
	if err := replace(filepath.Join(f.Past(), g.to.UTC().Format(nameLayout)), one); err != nil {
		return err
	}
	if err := replace(f.Latest(), merged); err != nil {
		return err
	}
	return f.removeOld()
}

// keepLast removes the oldest intervals until at most n are left, with what one
// page holds. The newest always stays: it is bounded by itself.
func keepLast(intervals []interval, n int) []interval {
	first := len(intervals) - 1
	boxes, texts := intervals[first].boxes(), intervals[first].texts()
	for first > 0 && len(intervals)-first < n {
		boxes, texts = boxes+intervals[first-1].boxes(), texts+intervals[first-1].texts()
		if boxes > maxDrawn || texts > maxKept {
			break
		}
		first--
	}
	return slices.Delete(intervals, 0, first)
}

// replace replaces a file by another in one step. It follows no link.
func replace(path string, content []byte) error {
	temporary := filepath.Join(filepath.Dir(path), temporaryName)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing a flame graph: %w", err)
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing a flame graph: %w", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return fmt.Errorf("writing a flame graph: %w", errors.Join(err, os.Remove(temporary)))
	}
	return nil
}

// removeOld removes the oldest pages beyond Keep, and nothing that is not one.
func (f *Folder) removeOld() error {
	entries, err := os.ReadDir(f.Past()) // in the order of their names
	if err != nil {
		return fmt.Errorf("listing flame graphs: %w", err)
	}
	var pages []string
	for _, e := range entries {
		if _, err := time.Parse(nameLayout, e.Name()); err == nil {
			pages = append(pages, e.Name())
		}
	}
	for len(pages) > f.Keep {
		if err := os.Remove(filepath.Join(f.Past(), pages[0])); err != nil {
			return fmt.Errorf("removing an old flame graph: %w", err)
		}
		pages = pages[1:]
	}
	return nil
}
