// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestLanguageOf(t *testing.T) {
	for path, want := range map[string]model.FrameType{
		"/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so": model.FrameJVM, "/usr/local/bin/node": model.FrameV8,
		"/usr/bin/node (deleted)": model.FrameV8, "/usr/lib/x86_64-linux-gnu/libnode.so.108": model.FrameV8,
		"/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so": model.FrameDotnet,
		"/usr/lib/erlang/erts-13.1.5/bin/beam.smp":                           model.FrameBEAM,
		"/usr/bin/python3.11": model.FrameCPython, "/usr/lib/libpython3.12.so.1.0": model.FrameCPython,
		"/usr/bin/ruby3.1": model.FrameRuby, "/usr/lib/libruby-3.1.so.3.1": model.FrameRuby, "/usr/sbin/php-fpm8.2": model.FramePHP,
		"/usr/lib/apache2/modules/libphp8.2.so": model.FramePHP, "/usr/bin/perl": model.FramePerl,
		"/usr/sbin/nginx": "", "/usr/bin/nodeenv": "", "/usr/lib/x86_64-linux-gnu/libc.so.6": "", "/usr/bin/pythonista": "",
	} {
		regions := []region{
			{mapEntry: mapEntry{path: "[vdso]"}}, {mapEntry: mapEntry{path: "/lib/ld.so", ino: 2}}, {mapEntry: mapEntry{path: path, ino: 1}},
		}
		got := languageOf(regions)
		require.Equal(t, want, got.kind, path)
	}
	require.Empty(t, languageOf([]region{{mapEntry: mapEntry{path: "/usr/bin/node"}}}).kind, "memory that is called like a file is none")
	for _, known := range runtimeFiles {
		require.NotEmpty(t, advice[known.kind])
	}
}
