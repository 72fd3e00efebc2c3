// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// Policy is a list of rules that start something when one of them holds. What they start is not known to this package.
type Policy struct {
	// Name is unique.
	Name string
	// When has a rule at least; any that holds triggers.
	When []Rule
	// Silence is for how long after the start of a run there is no second one for the
	// same process.
	Silence time.Duration
	// KernelThreads: the configuration names its processes. Otherwise rules about the host hold for no
	// kernel threads, which are many and rarely the cause.
	KernelThreads bool
}

// OfRequests reports whether any rule uses requests.
func (p *Policy) OfRequests() bool {
	return slices.ContainsFunc(p.When, func(r Rule) bool { return r.Monitor.OfRequests() })
}

// Rule holds while at least Count of the last Period seconds have reached Threshold.
type Rule struct {
	Monitor   *monitor.Descriptor
	Threshold float64
	// Period is in seconds; Count is at least 1 and at most Period.
	Period, Count int
	// Paths are those of requests that count, each with a window of its own, or Pattern
	// finds those that do; neither: all do.
	Paths   []string
	Pattern *regexp.Regexp
}

// same reports whether the windows of two rules have the same values, so that one may take over
// the other's.
func (r *Rule) same(o *Rule) bool {
	return r.Monitor == o.Monitor && r.Threshold == o.Threshold && r.Period == o.Period && r.pattern() == o.pattern() && slices.Equal(r.Paths, o.Paths)
}

func (r *Rule) pattern() string {
	if r.Pattern == nil {
		return ""
	}
	return r.Pattern.String()
}

// windows is how many the rule has for a process.
func (r *Rule) windows() int { return max(1, len(r.Paths)) }

// uri is what one window's requests have in common; empty for all requests.
func (r *Rule) uri(window int) string {
	if len(r.Paths) > 0 {
		return r.Paths[window]
	}
	return r.pattern()
}

// window is that of requests to a path, or to several that begin so and are none that a rule names; false where they count for none.
func (r *Rule) window(path []byte, begins bool) (int, bool) {
	switch {
	case len(r.Paths) > 0 && begins:
		return 0, false
	case len(r.Paths) > 0:
		i := slices.IndexFunc(r.Paths, func(p string) bool { return p == string(path) })
		return i, i >= 0
	case r.Pattern != nil:
		return 0, r.Pattern.Match(path)
	}
	return 0, true
}

// Wanted is what rules need of requests of HTTP/1. Requests that it does not name count for none of them.
type Wanted struct {
	// All: each request has to be reported.
	All bool
	// Reported are the prefixes of targets whose requests have to be reported. A target is a path and what follows
	// it, a query or the blank before the version.
	Reported []string
	// Counted are paths, without query: of requests to these it is enough to know how many there were.
	Counted []string
	// Begun are prefixes of paths whose requests are counted, too, unless they are reported, counted by their path or begin with a longer prefix.
	Begun []string
	// Rest: all other requests are counted, too.
	Rest bool
}

// WantedBy is what the rules of policies need.
func WantedBy(policies []Policy) (w Wanted) {
	for i := range policies {
		for j := range policies[i].When {
			r := &policies[i].When[j]
			switch {
			case !r.Monitor.OfRequests():
			case len(r.Paths) > 0:
				w.Counted = append(w.Counted, r.Paths...)
			case r.Pattern == nil:
				w.Rest = true
			default:
				prefix, whole := literal(r.pattern())
				switch {
				case prefix == "":
					return Wanted{All: true}
				case whole && !strings.ContainsAny(prefix, " ?"): // which paths have not, and what follows them begins with
					w.Begun = append(w.Begun, prefix)
				default:
					w.Reported = append(w.Reported, prefix)
				}
			}
		}
	}
	slices.Sort(w.Counted)
	w.Counted = slices.Compact(w.Counted)
	slices.Sort(w.Reported)
	shortest := w.Reported[:0]
	for _, prefix := range w.Reported {
		if n := len(shortest); n == 0 || !strings.HasPrefix(prefix, shortest[n-1]) {
			shortest = append(shortest, prefix)
		}
	}
	w.Reported = shortest
	slices.Sort(w.Begun)
	w.Begun = slices.DeleteFunc(slices.Compact(w.Begun), func(prefix string) bool {
		return slices.ContainsFunc(w.Reported, func(reported string) bool { return strings.HasPrefix(prefix, reported) })
	})
	return w
}

// literal is the text that a path begins with wherever the pattern matches it, empty where
// that is not known; whole: it matches wherever a path begins so.
func literal(pattern string) (prefix string, whole bool) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	parsed = parsed.Simplify()
	if parsed.Op != syntax.OpConcat || len(parsed.Sub) < 2 || parsed.Sub[0].Op != syntax.OpBeginText {
		return "", false
	}
	text := parsed.Sub[1]
	if text.Op != syntax.OpLiteral || text.Flags&syntax.FoldCase != 0 {
		return "", false
	}
	return string(text.Rune), len(parsed.Sub) == 2
}

// uris is what narrows the rule, as one text.
func (r *Rule) uris() string { return strings.Join(r.Paths, "\x00") + "\x00" + r.pattern() }
