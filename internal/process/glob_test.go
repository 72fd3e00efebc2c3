// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		glob     string
		yes, not []string
	}{
		{"/bin/sh", []string{"/bin/sh"}, []string{"/bin/sh2", "x/bin/sh", "", "/bin/sh\n"}},
		{"/usr/bin/*", []string{"/usr/bin/a", "/usr/bin/"}, []string{"/usr/bin", "/usr/bin/a/b"}},
		{"*/java", []string{"x/java", "/java"}, []string{"/opt/java"}},
		{"**/java", []string{"/opt/java", "/opt/jdk/bin/java", "/java"}, []string{"java", "/opt/javac"}},
		{"/opt/**", []string{"/opt/", "/opt/a\nb/c"}, []string{"/opt"}},
		{"/bin/py?hon", []string{"/bin/python", "/bin/pyéhon"}, []string{"/bin/py/hon", "/bin/pyhon"}},
		{"/bin/[a-cx]", []string{"/bin/a", "/bin/c", "/bin/x"}, []string{"/bin/d", "/bin/-"}},
		{"/bin/[!a-c]", []string{"/bin/d"}, []string{"/bin/a", "/bin//"}},
		{"[a-]", []string{"a", "-"}, []string{"b"}},
		{`[\]^]`, []string{"]", "^"}, []string{`\`}},
		{"/{bin,usr/{bin,sbin}}/a", []string{"/bin/a", "/usr/bin/a", "/usr/sbin/a"}, []string{"/usr/a", "/sbin/a"}},
		{"a{,b}", []string{"a", "ab"}, []string{"b"}},
		{"a,b", []string{"a,b"}, nil},
		{`/a\*\{b.+()|$`, []string{"/a*{b.+()|$"}, []string{"/ax{b.+()|$"}},
		{`\é`, []string{"é"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.glob, func(t *testing.T) {
			re, err := compileGlob(tt.glob)
			require.NoError(t, err)
			for _, path := range tt.yes {
				require.True(t, re.MatchString(path), path)
			}
			for _, path := range tt.not {
				require.False(t, re.MatchString(path), path)
			}
		})
	}
}

func TestGlobErrors(t *testing.T) {
	for glob, want := range map[string]error{
		"/usr/{a,b": errGlobBraces, "a}": errGlobClosing, "[a": errGlobClass, "[]": errGlobClass, "[!]": errGlobClass,
		"[b-a]": errGlobRange, `a\`: errGlobEscape, `[a-\`: errGlobEscape, "a\xff": errGlobText,
	} {
		_, err := compileGlob(glob)
		require.ErrorIs(t, err, want, glob)
	}
	_, err := compileGlob("/bin/}")
	require.EqualError(t, err, `compiling the glob "/bin/}": at byte 5: } without {`)
}

func FuzzGlob(f *testing.F) {
	f.Add("/usr/{a,b}/**/[!c-d]?", "/usr/a/x/ef")
	f.Add(`[\]-a\`, "]")
	f.Add("{{{,},},}*", "")
	f.Fuzz(func(t *testing.T, glob, path string) {
		re, err := compileGlob(glob)
		if err != nil {
			return
		}
		re.MatchString(path)
		if !strings.ContainsAny(glob, `*?[]{}\`) && utf8.ValidString(path) {
			require.Equal(t, glob == path, re.MatchString(path))
		}
	})
}
