// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap"
)

// hungFile is a file of which the file system does not answer until it is released.
type hungFile struct {
	source
	asked   chan string // what was called, and waits
	release chan struct{}
}

func hang(src source) *hungFile {
	return &hungFile{source: src, asked: make(chan string, 100), release: make(chan struct{})}
}

func (f *hungFile) wait(what string) {
	select {
	case <-f.release:
	default:
		f.asked <- what
		<-f.release
	}
}

func (f *hungFile) ReadAt(buf []byte, off int64) (int, error) {
	f.wait("read")
	return f.source.ReadAt(buf, off)
}

func (f *hungFile) Close() error {
	f.wait("close")
	return f.source.Close()
}

// Size implements codemap.Source.
func (f *hungFile) Size() (uint64, error) {
	f.wait("size")
	return f.source.(codemap.Source).Size()
}

// begins waits until a call to the file system has begun.
func (f *hungFile) begins(t *testing.T, what string) {
	t.Helper()
	select {
	case got := <-f.asked:
		require.Equal(t, what, got)
	case <-time.After(time.Minute):
		require.Fail(t, "the file system was not called", what)
	}
}

// othersGoOn names a function of another process, one that had no name so far.
func othersGoOn(t *testing.T, other *AddressSpace, pc uint64, name string) {
	t.Helper()
	named := make(chan string, 1)
	go func() {
		f := other.Frames(nil, []uint64{pc})[0]
		if len(f.Lines) == 0 {
			named <- "no name"
			return
		}
		named <- functionOf(f)
	}()
	select {
	case got := <-named:
		require.Equal(t, name, got)
	case <-time.After(time.Minute):
		require.Fail(t, "another process is not named while a file system hangs")
	}
}

// functionsC has some functions, each of which has a process named anew.
const functionsC = `
#include <stdio.h>
#include <unistd.h>
#define F(name) __attribute__((noinline)) void name(void) { for (volatile int i = 0; i < 10; i++); }
F(first) F(second) F(third) F(fourth)
int main(void) {
	char c;
	printf("first %p\nsecond %p\nthird %p\nfourth %p\nready\n", (void *)first, (void *)second, (void *)third, (void *)fourth);
	fflush(stdout);
	return (void)first, (int)read(0, &c, 1);
}
`

// TestOthersAreNamedWhileAFileSystemHangs has the file system of a process's program not answer, in turn where names, code and the files that
// list code are read, and where a file is closed. Other processes are named meanwhile, and the process itself when there is an answer.
func TestOthersAreNamedWhileAFileSystemHangs(t *testing.T) {
	s := plainSymbolizer(t, Config{})
	other := start(t, toolchain.CompileC(t, functionsC, "other"))
	hung := start(t, toolchain.CompileC(t, functionsC, "hung", "-DHUNG"))
	otherSpace, space := openSpace(t, s, other.pid()), openSpace(t, s, hung.pid())
	for _, a := range []struct {
		*AddressSpace
		target
	}{{otherSpace, other}, {space, hung}} {
		require.Equal(t, "first", functionOf(a.Frames(nil, []uint64{a.functions["first"]})[0]), "the tables are made")
	}
	r := space.find(hung.functions["second"])
	// stop has the file system of the program hang from now on. Nothing of the file is cached.
	stop := func() *hungFile {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pages.Forget(r.bin.serial)
		require.NoError(t, s.reopen(space, r))
		f := hang(r.bin.file)
		r.bin.file = f
		return f
	}
	finish := func(f *hungFile, done <-chan string, want string) {
		close(f.release)
		require.Equal(t, want, <-done)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.bin.file == source(f) {
			r.bin.file = f.source
		}
	}

	t.Run("names", func(t *testing.T) {
		f := stop()
		done := make(chan string, 1)
		go func() { done <- functionOf(space.Frames(nil, []uint64{hung.functions["second"]})[0]) }()
		f.begins(t, "read")
		othersGoOn(t, otherSpace, other.functions["second"], "second")
		require.NotZero(t, s.Stats().Binaries)
		finish(f, done, "second")
	})
	t.Run("code", func(t *testing.T) {
		f := stop()
		done := make(chan string, 1)
		go func() { done <- fmt.Sprint(space.Called(hung.functions["third"], hung.functions["third"]+1)) }()
		f.begins(t, "read")
		othersGoOn(t, otherSpace, other.functions["third"], "third")
		finish(f, done, "false")
	})
	t.Run("the file is closed", func(t *testing.T) {
		f := stop()
		done := make(chan string, 1)
		go func() {
			s.mu.Lock()
			s.closeFile(r.bin)
			s.mu.Unlock()
			done <- "closed"
		}()
		f.begins(t, "close")
		othersGoOn(t, otherSpace, other.functions["fourth"], "fourth")
		finish(f, done, "closed")
	})
	t.Run("the file is closed while it is read", func(t *testing.T) {
		f := stop()
		done := make(chan string, 1)
		go func() { done <- functionOf(space.Frames(nil, []uint64{hung.functions["fourth"]})[0]) }()
		f.begins(t, "read")
		s.mu.Lock()
		s.closeFile(r.bin)
		s.mu.Unlock()
		require.Empty(t, f.asked, "it stays open for the one who reads it")
		finish(f, done, "fourth")
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Empty(t, s.inUse)
	})
}

// TestOthersAreNamedWhileAPerfMapHangs has the file system of a perf map not answer.
func TestOthersAreNamedWhileAPerfMapHangs(t *testing.T) {
	s := plainSymbolizer(t, Config{})
	other := start(t, toolchain.CompileC(t, functionsC, "other"))
	otherSpace := openSpace(t, s, other.pid())
	code := uint64(0x7000_0000_0000)
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	write := func(text string, flags int) {
		f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|flags, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	write(fmt.Sprintf("%x 100 listed\n", code), os.O_TRUNC)
	t.Cleanup(func() { require.NoError(t, os.Remove(path)) })
	a := openSpace(t, s, os.Getpid())
	s.mu.Lock()
	a.jit.wanted = true
	s.poll(a, 0)
	require.NotNil(t, a.jit.perfMap)
	f := hang(a.jit.perfMap.Src)
	a.jit.perfMap.Src = f
	s.now = func() time.Time { return time.Now().Add(time.Minute) } // it is read again
	s.mu.Unlock()
	write(fmt.Sprintf("%x 100 later\n", code+0x100), os.O_APPEND)

	done := make(chan *model.Frame, 1)
	go func() { done <- a.Frames(nil, []uint64{code + 0x110})[0] }()
	f.begins(t, "size")
	othersGoOn(t, otherSpace, other.functions["second"], "second")
	close(f.release)
	require.Equal(t, "later", functionOf(<-done))
}
