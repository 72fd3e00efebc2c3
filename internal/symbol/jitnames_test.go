// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestCompiledNames takes names as node 20, OpenJDK 17, perf-map-agent, .NET 8, Python 3.12 and Erlang 26 write them.
func TestCompiledNames(t *testing.T) {
	v8, jvm, native := model.FrameV8, model.FrameJVM, model.FrameNative
	for _, c := range []struct {
		of     model.FrameType
		system string
		want   compiledFunctionName
	}{
		{v8, "LazyCompile:~foo /path/x.js:12:3", compiledFunctionName{"foo", "/path/x.js", 12, v8}},
		{v8, "JS:*foo /path/x.js:1:13", compiledFunctionName{"foo", "/path/x.js", 1, v8}},
		{v8, "JS:^foo file:///my dir/x.mjs:7:1", compiledFunctionName{"foo", "file:///my dir/x.mjs", 7, v8}},
		{v8, "JS:+get size /my dir/x.js:7:1", compiledFunctionName{"get size", "/my dir/x.js", 7, v8}},
		{v8, "LazyCompile:*foo /old/x.js:12", compiledFunctionName{"foo", "/old/x.js", 12, v8}},
		{v8, "JS:~ node:internal/vm/module:1:1", compiledFunctionName{"(anonymous)", "node:internal/vm/module", 1, v8}},
		{v8, "JS:~<instance_members_initializer> node:internal/vm/module:256:1", compiledFunctionName{"<instance_members_initializer>", "node:internal/vm/module", 256, v8}},
		{v8, "JS:*bar [eval]:3:13", compiledFunctionName{"bar", "[eval]", 3, v8}},
		{v8, "Script:~ /path/x.js:1:1", compiledFunctionName{"(anonymous)", "/path/x.js", 1, v8}},
		{v8, "Function:~foo evalmachine.<anonymous>:4:5", compiledFunctionName{"foo", "evalmachine.<anonymous>", 4, v8}},
		{v8, "JS:*foo", compiledFunctionName{"foo", "", 0, v8}},
		{v8, "JS:*", compiledFunctionName{"(anonymous)", "", 0, v8}},
		{v8, "JS:*foo /x.js:99999999999999999999:1", compiledFunctionName{"foo", "/x.js", 1<<31 - 1, v8}},
		{"", "LazyCompile:~foo /path/x.js:12:3", compiledFunctionName{"foo", "/path/x.js", 12, v8}},
		{v8, "Builtin:ArrayPrototypeMap", compiledFunctionName{"Builtin:ArrayPrototypeMap", "", 0, v8}},
		{v8, "BytecodeHandler:Add.Wide", compiledFunctionName{"BytecodeHandler:Add.Wide", "", 0, v8}},
		{v8, `RegExp:^[a-z]+ /x.js:1:2`, compiledFunctionName{`RegExp:^[a-z]+ /x.js:1:2`, "", 0, v8}},
		{jvm, "long Hot.hot(long)", compiledFunctionName{"Hot.hot", "", 0, jvm}},
		{jvm, "java.lang.Object jdk.internal.misc.Unsafe.getReferenceVolatile(java.lang.Object, long)", compiledFunctionName{"jdk.internal.misc.Unsafe.getReferenceVolatile", "", 0, jvm}},
		{jvm, "void java.util.HashMap.<init>()", compiledFunctionName{"java.util.HashMap.<init>", "", 0, jvm}},
		{jvm, "Lcom/foo/Bar;::baz", compiledFunctionName{"com.foo.Bar.baz", "", 0, jvm}},
		{jvm, "Lcom/foo/Bar$Inner;::baz(IJ)V", compiledFunctionName{"com.foo.Bar$Inner.baz", "", 0, jvm}},
		{jvm, "com.foo.Bar::baz", compiledFunctionName{"com.foo.Bar.baz", "", 0, jvm}},
		{jvm, "Interpreter", compiledFunctionName{"Interpreter", "", 0, jvm}},
		{jvm, "StubRoutines (1)", compiledFunctionName{"StubRoutines (1)", "", 0, jvm}},
		{jvm, "I2C/C2I adapters", compiledFunctionName{"I2C/C2I adapters", "", 0, jvm}},
		{jvm, "register_finalizer Runtime1 stub", compiledFunctionName{"register_finalizer Runtime1 stub", "", 0, jvm}},
		{model.FrameCPython, "py::Shop.total:/srv/shop.py", compiledFunctionName{"Shop.total", "/srv/shop.py", 0, model.FrameCPython}},
		{model.FrameCPython, "py::", compiledFunctionName{"py::", "", 0, native}},
		{model.FrameCPython, "py::<module>", compiledFunctionName{"<module>", "", 0, model.FrameCPython}},
		{model.FrameCPython, "trampoline", compiledFunctionName{"trampoline", "", 0, native}},
		{model.FrameDotnet, "void [Shop] Shop.Cart::Total(int32)[Tier0]", compiledFunctionName{"void [Shop] Shop.Cart::Total(int32)[Tier0]", "", 0, model.FrameDotnet}},
		{model.FrameBEAM, "$lists:map/2", compiledFunctionName{"$lists:map/2", "", 0, model.FrameBEAM}},
		{"", "hot", compiledFunctionName{"hot", "", 0, native}},
		{"", "std::vector::push", compiledFunctionName{"std::vector::push", "", 0, native}},
	} {
		got := compiledName(c.system, c.of)
		require.Equal(t, c.want, got, c.system)
	}
}

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

func FuzzCompiledName(f *testing.F) {
	f.Add("JS:*foo /x.js:1:2", "v8js")
	f.Add("Lcom/foo/Bar;::baz(IJ)V", "jvm")
	f.Add("py::a:/b", "cpython")
	f.Fuzz(func(t *testing.T, system, of string) {
		if told := compiledName(system, model.FrameType(of)); system != "" && told.name == "" {
			t.Errorf("%q has no name", system)
		}
	})
}
