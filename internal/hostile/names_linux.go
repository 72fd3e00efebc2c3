// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

const (
	victimRole   = "victim"
	impostorRole = "impostor"
	// victimFunctions is how many functions each of its libraries has.
	victimFunctions = 4
	// truePrefix begins the names in the genuine debug file, falsePrefix those in the files of impostors.
	truePrefix, falsePrefix = "true_", "false_"
	debugFolder             = "/usr/lib/debug"
)

// victimLibraries have no symbols. Of the first one the host has a debug file, of the second one it has none.
var victimLibraries = []string{"genuine", "bare"}

func victimBuildID(name string) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%.5s", name+"....."))[:5], 4)
}

// namesAttack has users mount debug files of their own, with the build ids of libraries that a process of root maps too.
var namesAttack = attack{
	name: "names",
	does: "unprivileged processes with false debug files in mount namespaces of their own map the libraries of a process of root",
	prepare: func(s *stage) error {
		debug := filepath.Join(s.dir, victimLibraries[0]+".debug")
		err := codefile.Write(debug, codefile.Spec{Name: numbered(truePrefix), Functions: victimFunctions, BuildID: victimBuildID(victimLibraries[0])})
		if err != nil {
			return err
		}
		content, err := os.ReadFile(debug)
		if err != nil {
			return err
		}
		for i, name := range victimLibraries {
			spec := codefile.Spec{Functions: victimFunctions, Loops: steadyLoops, Stripped: true, BuildID: victimBuildID(name)}
			if i == 0 {
				spec.DebugLink, spec.DebugCRC = filepath.Base(debug), crc32.ChecksumIEEE(content)
			}
			if err := codefile.Write(filepath.Join(s.dir, name+".so"), spec); err != nil {
				return err
			}
		}
		return nil
	},
	start: func(ctx context.Context, s *stage) error {
		if err := s.runAll(ctx, otherMounting, impostorRole); err != nil {
			return err
		}
		return s.run(ctx, nil, victimRole, s.task()...)
	},
}

func numbered(prefix string) func(i int) string {
	return func(i int) string { return prefix + strconv.Itoa(i) }
}

// victim runs the functions of its libraries.
func victim(args []string) error {
	t, err := parseTask(victimRole, args)
	if err != nil {
		return err
	}
	return t.callVictims()
}

// impostor does so, too, where it has false debug files.
func impostor(args []string) error {
	t, err := parseTask(impostorRole, args)
	if err != nil {
		return err
	}
	if err := mountOver(debugFolder); err != nil {
		return err
	}
	for _, name := range victimLibraries {
		id := fmt.Sprintf("%x", victimBuildID(name))
		path := filepath.Join(debugFolder, ".build-id", id[:2], id[2:]+".debug")
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			codefile.Write(path, codefile.Spec{Name: numbered(falsePrefix), Functions: victimFunctions, BuildID: victimBuildID(name)}))
		if err != nil {
			return err
		}
	}
	return t.callVictims()
}

func (t task) callVictims() error {
	var libraries []codefile.Mapped
	for _, name := range victimLibraries {
		m, err := codefile.Map(filepath.Join(t.dir, name+".so"), victimFunctions)
		if err != nil {
			return err
		}
		libraries = append(libraries, m)
	}
	n := 0
	until(t.end, t.duty, func() {
		libraries[n%len(libraries)].Call(n / len(libraries) % victimFunctions)
		n++
	})
	return nil
}
