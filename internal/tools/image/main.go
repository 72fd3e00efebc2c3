// SPDX-License-Identifier: Apache-2.0

// Command image writes a container image as an archive of an OCI image layout, without a container engine. For each platform the image has a static
// Collector and a configuration, and nothing else. Equal inputs make an equal archive.
//
//	image -out FILE -name NAME:TAG -version VERSION -config FILE linux/amd64=BINARY linux/arm64=BINARY
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	program    = "/otelcol-ebpf"
	configFile = "/etc/otelcol-ebpf/config.yaml"
	source     = "https://github.com/otelcol-ebpf/ebpfreceiver"
	// certificates are the folders of authorities' certificates: the image has none, so those of the host are read where its file system is mounted.
	certificates = "/etc/ssl/certs:/host/etc/ssl/certs:/host/etc/pki/ca-trust/extracted/pem"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "", "archive to write")
	name := flags.String("name", "", "name and tag")
	version := flags.String("version", "", "version of the program")
	config := flags.String("config", "", "configuration that the image starts with")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *name == "" || *config == "" || flags.NArg() == 0 {
		return errors.New("-out, -name, -config and a binary of at least one platform are needed")
	}
	var index v1.ImageIndex = empty.Index
	for _, arg := range flags.Args() {
		platform, binary, found := strings.Cut(arg, "=")
		if !found {
			return fmt.Errorf("%q is not PLATFORM=BINARY", arg)
		}
		of, err := v1.ParsePlatform(platform)
		if err != nil {
			return fmt.Errorf("reading the platform %q: %w", platform, err)
		}
		img, err := makeImage(of, binary, *config, *version)
		if err != nil {
			return fmt.Errorf("making the image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: of}})
	}
	return write(mutate.IndexMediaType(index, types.OCIImageIndex), *out, *name)
}

// makeImage returns the image of one platform. Each file is a layer of its own: another configuration needs no other program.
func makeImage(platform *v1.Platform, binary, config, version string) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, file := range []struct {
		from, to string
		mode     int64
	}{{binary, program, 0o755}, {config, configFile, 0o644}} {
		layer, err := fileLayer(file.from, file.to, file.mode)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "make image", Comment: file.to}}); err != nil {
			return nil, fmt.Errorf("adding %s: %w", file.to, err)
		}
	}
	described, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	described = described.DeepCopy()
	described.Architecture, described.OS, described.Variant = platform.Architecture, platform.OS, platform.Variant
	described.Config = v1.Config{
		Entrypoint: []string{program}, Cmd: []string{"--config", configFile},
		Env:    []string{"PATH=/", "ROOT_PATH=/host", "SSL_CERT_DIR=" + certificates},
		Labels: map[string]string{"org.opencontainers.image.source": source, "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.version": version},
	}
	return mutate.ConfigFile(img, described)
}
