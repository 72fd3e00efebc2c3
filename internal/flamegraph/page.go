// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:embed assets
var assets embed.FS

// scripts are the files of the page's one script, in their order.
var scripts = []string{"format.js", "model.js", "chart.js", "keys.js", "table.js", "timeline.js", "page.js"}

// Page is the page of what was added.
func (g *Graph) Page() ([]byte, error) { return page([]interval{g.interval()}) }

// page is the page of intervals, which the browser merges.
func page(intervals []interval) ([]byte, error) {
	skeleton, err := loadSkeleton()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(skeleton.before)
	// The encoder writes <, > and & as \u003c, \u003e and \u0026: no name ends
	// the element that it is in.
	if err := json.NewEncoder(&out).Encode(encode(intervals)); err != nil {
		return nil, fmt.Errorf("encoding a flame graph: %w", err)
	}
	out.WriteString(skeleton.after)
	return out.Bytes(), nil
}

// skeleton is the page without its data.
type skeleton struct{ before, after string }

var loadSkeleton = sync.OnceValues(func() (skeleton, error) {
	var failed error
	read := func(name string) string {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil && failed == nil {
			failed = fmt.Errorf("reading the flame graph's page: %w", err)
		}
		return string(text)
	}
	// A function around all keeps names off the window's, such as name and top.
	script := "\"use strict\";\n(() => {\n"
	for _, name := range scripts {
		script += read(name)
	}
	script += "})();\n"
	style := read("page.css")
	html := read("page.html")
	if failed != nil {
		return skeleton{}, failed
	}
	fill := strings.NewReplacer("@POLICY@", policy(script, style), "@STYLE@", style, "@SCRIPT@", script)
	before, after, _ := strings.Cut(html, "@DATA@")
	return skeleton{fill.Replace(before), fill.Replace(after)}, nil
})

// policy is a content security policy that lets this script and style apply and
// nothing else: no other script, no markup made of text, no network.
func policy(script, style string) string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'; " +
		"script-src " + digest(script) + "; style-src " + digest(style)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
