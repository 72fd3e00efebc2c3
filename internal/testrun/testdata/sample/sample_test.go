// SPDX-License-Identifier: Apache-2.0

// Package sample has one test for each way in which a test can end.
package sample

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestPasses(t *testing.T) {
	fmt.Print("no line feed")
	t.Run("part", func(*testing.T) {})
}

func TestFails(t *testing.T) { t.Run("part", func(t *testing.T) { t.Error("two is not three") }) }

func TestSkips(t *testing.T) { t.Skip("there is no moon") }

func TestPanics(*testing.T) { panic("out of luck") }

func TestExits(*testing.T) { os.Exit(3) }

func TestHangs(*testing.T) { time.Sleep(time.Hour) }

// TestFailsAtFirst fails in the first process that runs it.
func TestFailsAtFirst(t *testing.T) {
	file, err := os.OpenFile(os.Getenv("SAMPLE_FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_ = file.Close()
		t.Error("the first time")
	}
}
