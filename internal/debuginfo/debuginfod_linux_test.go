// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

func TestDebuginfod(t *testing.T) {
	b, err := os.ReadFile("testdata/bin/clang-dwarf5")
	require.NoError(t, err)
	f, err := elfimage.Parse(imageOfBytes(b))
	require.NoError(t, err)
	id := BuildID(f)
	asked := 0
	handler := http.NewServeMux()
	send := func(b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			asked++
			_, err := w.Write(b)
			if err != nil {
				t.Log(err) // the client closed the connection
			}
		}
	}
	handler.HandleFunc("GET /good/buildid/"+id+"/debuginfo", send(b))
	handler.HandleFunc("GET /other/buildid/abcd/debuginfo", send(b))
	handler.HandleFunc("GET /endless/buildid/"+id+"/debuginfo", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	handler.HandleFunc("GET /silent/buildid/"+id+"/debuginfo", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	handler.HandleFunc("GET /plain/buildid/"+id+"/debuginfo", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/good/buildid/"+id+"/debuginfo", http.StatusFound)
	})
	handler.HandleFunc("GET /broken/buildid/"+id+"/debuginfo", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	fetch := func(ctx context.Context, id string, places ...string) (File, error) {
		var urls []string
		for _, p := range places {
			urls = append(urls, server.URL+"/"+p)
		}
		s := NewServers(urls, t.TempDir())
		defer s.Close()
		s.client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		s.limit = 1 << 20
		return s.Fetch(ctx, id)
	}
	ctx := context.Background()
	file, err := fetch(ctx, id, "missing", "broken", "good/")
	require.NoError(t, err)
	got := make([]byte, file.Size)
	require.NoError(t, file.Read(got, 0))
	require.Equal(t, b, got)
	require.NoError(t, file.Close())
	require.Equal(t, 1, asked)

	_, err = fetch(ctx, id, "missing")
	require.ErrorIs(t, err, ErrNone)
	_, err = fetch(ctx, "../../etc/passwd", "good")
	require.ErrorIs(t, err, ErrNone)
	_, err = fetch(ctx, "abcd", "other")
	require.ErrorIs(t, err, errOtherFile)
	_, err = fetch(ctx, id, "endless")
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "endless")
	_, err = fetch(ctx, id, "plain")
	require.ErrorContains(t, err, "only https")
	_, err = fetch(ctx, id, "broken")
	require.NotErrorIs(t, err, ErrNone, "it may have it")
	require.ErrorContains(t, err, "502")
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	_, err = fetch(short, id, "silent")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
