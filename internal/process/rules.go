// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"maps"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// noInclude is the index of the matching include where there is none.
const noInclude = -1

// Keys of the lists of a [Config] in the configuration.
const (
	includePath = "targets::include"
	excludePath = "targets::exclude"
)

// rules are the compiled targets of a table.
type rules struct {
	include, exclude *selectorList
	self             uint32
	// uses is the union of all conditions.
	uses fieldSet
}

func newRules(cfg *Config) (*rules, error) {
	include, err := compileList(includePath, cfg.Include)
	if err != nil {
		return nil, err
	}
	exclude, err := compileList(excludePath, cfg.Exclude)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Exclude {
		if len(cfg.Exclude[i].Set) > 0 {
			return nil, fmt.Errorf("%s[%d]: %w", excludePath, i, errors.New("set: only a selector of include sets attributes"))
		}
	}
	return &rules{include: include, exclude: exclude, self: cfg.SelfPID, uses: include.uses() | exclude.uses()}, nil
}

// all reports whether every process but this one is in scope.
func (r *rules) all() bool { return r.uses == 0 }

// needReading reports whether /proc/PID/stat is not enough to decide.
func (r *rules) needReading() bool { return r.uses&^inStat != 0 }

// decide reports whether a process is in scope and which include matched it. The candidate's process gets the attributes of that include.
func (r *rules) decide(s *candidate) (inScope bool, include int) {
	include = r.include.first(s)
	if include != noInclude {
		applySet(s.process, r.include.matchers[include].set)
		s.service = s.process.ServiceName
	}
	inScope = include != noInclude || len(r.include.matchers) == 0 && s.process.ID.PID != r.self
	for i, m := range r.exclude.matchers {
		hit := &r.exclude.hits[i]
		// After the decision, matching only serves to record first hits.
		if (inScope || !hit.Load()) && m.match(s) {
			hit.Store(true)
			inScope = false
		}
	}
	return inScope, include
}

// decideWithout is decide where some conditions of selectors are not known; known is false where the result depends on them.
func (r *rules) decideWithout(s *candidate, unknown fieldSet) (inScope bool, include int, known bool) {
	include, known = r.include.firstWithout(s, unknown)
	if !known {
		return false, noInclude, false
	}
	if include == noInclude && (len(r.include.matchers) > 0 || s.process.ID.PID == r.self) {
		return false, noInclude, true
	}
	if include != noInclude {
		if name, ok := r.include.matchers[include].set[attrServiceName]; ok {
			s.service = name
		}
	}
	excluded, known := r.exclude.firstWithout(s, unknown)
	return known && excluded == noInclude, include, known
}

// applySet gives the process the attributes of the include that matched it.
func applySet(p *model.Process, set map[string]string) {
	if name, ok := set[attrServiceName]; ok {
		p.ServiceName = name
	}
	if id, ok := set[attrServiceInstance]; ok {
		p.ServiceInstanceID, p.Family = id, model.ProcessID{}
	}
	rest := maps.Clone(set)
	delete(rest, attrServiceName)
	delete(rest, attrServiceInstance)
	if len(rest) > 0 {
		p.Attributes = rest
	}
}
