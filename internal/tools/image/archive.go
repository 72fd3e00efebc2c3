// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is where engines find the name of an image in a layout.
const nameAnnotation = "org.opencontainers.image.ref.name"

// fileLayer returns a layer of one file in its folders, owned by root and without times.
func fileLayer(from, to string, mode int64) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	parts := strings.Split(strings.TrimPrefix(to, "/"), "/")
	for i := range parts[1:] {
		if err := w.WriteHeader(header(strings.Join(parts[:i+1], "/")+"/", tar.TypeDir, 0o755, 0)); err != nil {
			return nil, err
		}
	}
	if err := addFile(w, from, strings.Join(parts, "/"), mode); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// write makes an archive of a layout that has the index alone.
func write(index v1.ImageIndex, out, name string) error {
	dir, err := os.MkdirTemp(filepath.Dir(out), "layout-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{nameAnnotation: name})); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	return pack(dir, out)
}

// pack writes the files of a folder into an archive, in the order of their names.
func pack(dir, out string) error {
	file, err := os.Create(filepath.Clean(out))
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return w.WriteHeader(header(filepath.ToSlash(name)+"/", tar.TypeDir, 0o755, 0))
		}
		return addFile(w, path, filepath.ToSlash(name), 0o644)
	})
	for _, close := range []func() error{w.Close, file.Close} {
		if closed := close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", out, err)
	}
	return nil
}

// addFile adds a file under a name.
func addFile(w *tar.Writer, from, name string, mode int64) error {
	file, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(header(name, tar.TypeReg, mode, info.Size())); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}

func header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0)}
}
