// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
)

// TestDebuginfod checks that a stripped program has its lines once a server has sent its debug file.
func TestDebuginfod(t *testing.T) {
	toolchain.Need(t, "objcopy")
	whole := toolchain.CompileC(t, programInlined, "target", "-g", "-O2", "-Wl,--build-id")
	bin := filepath.Join(t.TempDir(), "target")
	toolchain.Run(t, "objcopy", "--only-keep-debug", whole, whole+".debug")
	toolchain.Run(t, "objcopy", "--strip-all", whole, bin)
	debug, err := os.ReadFile(whole + ".debug")
	require.NoError(t, err)
	release, asked := make(chan struct{}), make(chan string, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-release
		if _, err := w.Write(debug); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(bin+".pem", certificate, 0o600))
	t.Setenv("SSL_CERT_FILE", bin+".pem")

	p := start(t, bin)
	s := newSymbolizer(t, Config{Debuginfod: []string{server.URL}})
	a := openSpace(t, s, p.pid())
	addr := p.functions["outer"] + 4
	f := a.Frames(nil, []uint64{addr})[0]
	require.Empty(t, f.Lines, "nothing waits for a server")
	require.Equal(t, "/buildid/"+f.Mapping.BuildID.GNU+"/debuginfo", <-asked)
	close(release)
	want := linesOf(t, whole, f.Address)
	require.Eventually(t, func() bool { return len(settledFrame(t, a, addr).Lines) > 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, want, linesOfFrame(settledFrame(t, a, addr)))
	a.Close()
	b := openSpace(t, s, p.pid())
	again := settledFrame(t, b, addr+1)
	require.Equal(t, linesOf(t, whole, again.Address), linesOfFrame(again), "it is kept")
	require.Empty(t, asked)
	require.Empty(t, s.Stats().Errors)
}
