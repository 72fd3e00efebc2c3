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

// Page is the page of what was added.
func (g *Graph) Page() ([]byte, error) {
	skeleton, err := loadSkeleton()
	if err != nil {
		return nil, err
	}
	data := struct {
		From    int64     `json:"from"` // milliseconds since 1970
		To      int64     `json:"to"`
		LeftOut int64     `json:"leftOut"`
		Graphs  []drawing `json:"graphs"`
	}{g.from.UnixMilli(), g.to.UnixMilli(), g.leftOut, []drawing{}}
	for _, t := range g.trees {
		data.Graphs = append(data.Graphs, t.draw(maxDrawn))
	}
	var out bytes.Buffer
	out.WriteString(skeleton.before)
	// The encoder writes <, > and & as \u003c, \u003e and \u0026: no name ends
	// the element that it is in.
	if err := json.NewEncoder(&out).Encode(data); err != nil {
		return nil, fmt.Errorf("encoding a flame graph: %w", err)
	}
	out.WriteString(skeleton.after)
	return out.Bytes(), nil
}

// skeleton is the page without its data.
type skeleton struct{ before, after string }

var loadSkeleton = sync.OnceValues(func() (skeleton, error) {
	texts := map[string]string{}
	for _, name := range []string{"page.html", "page.css", "page.js", "d3.min.js", "d3-flamegraph.min.js", "LICENSE.d3"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return skeleton{}, fmt.Errorf("reading the flame graph's page: %w", err)
		}
		texts[name] = string(text)
	}
	scripts := []string{texts["d3.min.js"], texts["d3-flamegraph.min.js"], texts["page.js"]}
	fill := strings.NewReplacer(
		"@POLICY@", policy(scripts), "@LICENSE_D3@", texts["LICENSE.d3"], "@STYLE@", texts["page.css"],
		"@D3@", scripts[0], "@FLAMEGRAPH@", scripts[1], "@PAGE@", scripts[2],
	)
	before, after, _ := strings.Cut(texts["page.html"], "@DATA@")
	return skeleton{fill.Replace(before), fill.Replace(after)}, nil
})

// policy is a content security policy that lets these scripts run and nothing
// else: no other script, no network.
func policy(scripts []string) string {
	sources := make([]string, len(scripts))
	for i, text := range scripts {
		digest := sha256.Sum256([]byte(text))
		sources[i] = "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
	}
	return "default-src 'none'; style-src 'unsafe-inline'; script-src " + strings.Join(sources, " ")
}
