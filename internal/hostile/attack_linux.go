// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// attack is a load that users put on the receiver.
type attack struct {
	name string // as -attacks names it
	does string // in one line
	// prepare writes files below the stage's folder. It may be nil.
	prepare func(s *stage) error
	// start starts processes by [stage.run] and returns; they end by themselves.
	start func(ctx context.Context, s *stage) error
}

// attacks are all that there are. A further one is a file with a row here, and the processes that it needs are rows of roles.
var attacks = []attack{symbolsAttack, checksumAttack, namesAttack, secretsAttack, linksAttack, mapsAttack}

// roles are what this program does when another of its processes has started it, by its first argument.
var roles = map[string]func(args []string) error{
	steadyRole:     steady,
	symbolsRole:    executeFiles,
	checksumRole:   callWithChecksum,
	victimRole:     victim,
	impostorRole:   impostor,
	readerRole:     readSecret,
	openReaderRole: readOwn,
	webRole:        web,
	linksRole:      callLinks,
	mapsRole:       mapFiles,
	mapsChildRole:  mapFilesOnce,
}

// chosen returns the attacks of a list of names; all of an empty one, and none of "none".
func chosen(names string) ([]attack, error) {
	switch names {
	case "":
		return attacks, nil
	case "none":
		return nil, nil
	}
	var list []attack
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, a := range attacks {
			if a.name == name {
				list, found = append(list, a), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-attacks: there is none called %q; allowed: %s, none", name, allNames())
		}
	}
	return list, nil
}

func allNames() string {
	var names []string
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return strings.Join(names, ", ")
}

// until does work with a share of one CPU until the time has come.
func until(end time.Time, share float64, work func()) {
	const turn = 50 * time.Millisecond
	for time.Now().Before(end) {
		began := time.Now()
		for time.Since(began) < time.Duration(share*float64(turn)) {
			work()
		}
		time.Sleep(turn - min(time.Since(began), turn))
	}
}
