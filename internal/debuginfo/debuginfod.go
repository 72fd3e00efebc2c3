// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	maxDownload    = 2 << 30
	downloadWithin = 10 * time.Minute
	answerWithin   = 30 * time.Second
	maxRedirects   = 4
)

// Servers are debuginfod servers; see debuginfod(8).
type Servers struct {
	urls   []string
	client *http.Client
	dir    string
	limit  int64
}

// NewServers makes a client of servers. Their answers are stored in files without a name in dir, the system's own when empty.
func NewServers(urls []string, dir string) *Servers {
	dialer := &net.Dialer{Timeout: answerWithin}
	return &Servers{urls: urls, dir: dir, limit: maxDownload, client: &http.Client{
		Timeout: downloadWithin,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: answerWithin,
			ResponseHeaderTimeout: answerWithin, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: checkRedirect,
	}}
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != "https" || len(via) > maxRedirects {
		return fmt.Errorf("redirected to %s: only https is followed, %d times at most", r.URL.Redacted(), maxRedirects)
	}
	return nil
}

// Fetch downloads the debug file of a build id. The error wraps [ErrNone] when no server has it.
func (s *Servers) Fetch(ctx context.Context, id string) (File, error) {
	if _, err := hex.DecodeString(id); err != nil || id == "" {
		return File{}, fmt.Errorf("build id %q: %w", id, ErrNone)
	}
	errs := []error{fmt.Errorf("debug file of build id %s: %w", id, ErrNone)}
	for _, base := range s.urls {
		file, err := s.fetchFrom(ctx, strings.TrimSuffix(base, "/")+"/buildid/"+id+"/debuginfo", id)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, ErrNone) {
			errs[0] = fmt.Errorf("debug file of build id %s", id) // the file may exist
			errs = append(errs, err)
		}
	}
	return File{}, errors.Join(errs...)
}

func (s *Servers) fetchFrom(ctx context.Context, url, id string) (_ File, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return File{}, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return File{}, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return File{}, fmt.Errorf("%s: %w", url, ErrNone)
	case answer.StatusCode != http.StatusOK:
		return File{}, fmt.Errorf("%s: %s", url, answer.Status)
	case answer.ContentLength > s.limit:
		return File{}, fmt.Errorf("%s: %d bytes: %w", url, answer.ContentLength, ErrTooLarge)
	}
	file, err := unnamedFile(s.dir, uint64(max(answer.ContentLength, 0)))
	if err != nil {
		return File{}, fmt.Errorf("making a file for %s: %w", url, err)
	}
	img, err := s.download(file, answer.Body, id)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // an answer that comes while the connection is closed says nothing of the file
	}
	if err != nil {
		return File{}, errors.Join(fmt.Errorf("%s: %w", url, err), file.Close())
	}
	return File{img, file.Close}, nil
}

// download stores what a server sends, if it is the debug file of the build id.
func (s *Servers) download(file *os.File, from io.Reader, id string) (elfimage.Image, error) {
	n, err := io.Copy(file, io.LimitReader(from, s.limit+1))
	if err != nil {
		return elfimage.Image{}, err
	}
	if n > s.limit {
		return elfimage.Image{}, fmt.Errorf("more than %d bytes: %w", s.limit, ErrTooLarge)
	}
	img := elfimage.Image{Src: file, Size: uint64(n)}
	f, err := elfimage.Parse(img)
	if err != nil {
		return img, err
	}
	if got := BuildID(f); got != id {
		return img, fmt.Errorf("its build id is %q: %w", got, errOtherFile)
	}
	return img, nil
}

// Close closes connections that are kept open.
func (s *Servers) Close() { s.client.CloseIdleConnections() }
