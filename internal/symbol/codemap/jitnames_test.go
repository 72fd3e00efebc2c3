// SPDX-License-Identifier: Apache-2.0

package codemap

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
		want   Name
	}{
		{v8, "LazyCompile:~foo /path/x.js:12:3", Name{"foo", "/path/x.js", 12, v8}},
		{v8, "JS:*foo /path/x.js:1:13", Name{"foo", "/path/x.js", 1, v8}},
		{v8, "JS:^foo file:///my dir/x.mjs:7:1", Name{"foo", "file:///my dir/x.mjs", 7, v8}},
		{v8, "JS:+get size /my dir/x.js:7:1", Name{"get size", "/my dir/x.js", 7, v8}},
		{v8, "LazyCompile:*foo /old/x.js:12", Name{"foo", "/old/x.js", 12, v8}},
		{v8, "JS:~ node:internal/vm/module:1:1", Name{"(anonymous)", "node:internal/vm/module", 1, v8}},
		{v8, "JS:~<instance_members_initializer> node:internal/vm/module:256:1", Name{"<instance_members_initializer>", "node:internal/vm/module", 256, v8}},
		{v8, "JS:*bar [eval]:3:13", Name{"bar", "[eval]", 3, v8}},
		{v8, "Script:~ /path/x.js:1:1", Name{"(anonymous)", "/path/x.js", 1, v8}},
		{v8, "Function:~foo evalmachine.<anonymous>:4:5", Name{"foo", "evalmachine.<anonymous>", 4, v8}},
		{v8, "JS:*foo", Name{"foo", "", 0, v8}},
		{v8, "JS:*", Name{"(anonymous)", "", 0, v8}},
		{v8, "JS:*foo /x.js:99999999999999999999:1", Name{"foo", "/x.js", 1<<31 - 1, v8}},
		{"", "LazyCompile:~foo /path/x.js:12:3", Name{"foo", "/path/x.js", 12, v8}},
		{v8, "Builtin:ArrayPrototypeMap", Name{"Builtin:ArrayPrototypeMap", "", 0, v8}},
		{v8, "BytecodeHandler:Add.Wide", Name{"BytecodeHandler:Add.Wide", "", 0, v8}},
		{v8, `RegExp:^[a-z]+ /x.js:1:2`, Name{`RegExp:^[a-z]+ /x.js:1:2`, "", 0, v8}},
		{jvm, "long Hot.hot(long)", Name{"Hot.hot", "", 0, jvm}},
		{jvm, "java.lang.Object jdk.internal.misc.Unsafe.getReferenceVolatile(java.lang.Object, long)", Name{"jdk.internal.misc.Unsafe.getReferenceVolatile", "", 0, jvm}},
		{jvm, "void java.util.HashMap.<init>()", Name{"java.util.HashMap.<init>", "", 0, jvm}},
		{jvm, "Lcom/foo/Bar;::baz", Name{"com.foo.Bar.baz", "", 0, jvm}},
		{jvm, "Lcom/foo/Bar$Inner;::baz(IJ)V", Name{"com.foo.Bar$Inner.baz", "", 0, jvm}},
		{jvm, "com.foo.Bar::baz", Name{"com.foo.Bar.baz", "", 0, jvm}},
		{jvm, "Interpreter", Name{"Interpreter", "", 0, jvm}},
		{jvm, "StubRoutines (1)", Name{"StubRoutines (1)", "", 0, jvm}},
		{jvm, "I2C/C2I adapters", Name{"I2C/C2I adapters", "", 0, jvm}},
		{jvm, "register_finalizer Runtime1 stub", Name{"register_finalizer Runtime1 stub", "", 0, jvm}},
		{model.FrameCPython, "py::Shop.total:/srv/shop.py", Name{"Shop.total", "/srv/shop.py", 0, model.FrameCPython}},
		{model.FrameCPython, "py::", Name{"py::", "", 0, native}},
		{model.FrameCPython, "py::<module>", Name{"<module>", "", 0, model.FrameCPython}},
		{model.FrameCPython, "trampoline", Name{"trampoline", "", 0, native}},
		{model.FrameDotnet, "void [Shop] Shop.Cart::Total(int32)[Tier0]", Name{"void [Shop] Shop.Cart::Total(int32)[Tier0]", "", 0, model.FrameDotnet}},
		{model.FrameBEAM, "$lists:map/2", Name{"$lists:map/2", "", 0, model.FrameBEAM}},
		{"", "hot", Name{"hot", "", 0, native}},
		{"", "std::vector::push", Name{"std::vector::push", "", 0, native}},
	} {
		got := ParseName(c.system, c.of)
		require.Equal(t, c.want, got, c.system)
	}
}

func FuzzCompiledName(f *testing.F) {
	f.Add("JS:*foo /x.js:1:2", "v8js")
	f.Add("Lcom/foo/Bar;::baz(IJ)V", "jvm")
	f.Add("py::a:/b", "cpython")
	f.Fuzz(func(t *testing.T, system, of string) {
		if parsed := ParseName(system, model.FrameType(of)); system != "" && parsed.Name == "" {
			t.Errorf("%q has no name", system)
		}
	})
}
