// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package tls

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// likeBoringSSL has functions that fail as those of BoringSSL do, of its size, and two of another source that fail for the same reasons.
const likeBoringSSL = `
#define APART __attribute__((noinline, noclone, visibility("default")))
#define FAIL(reason) ERR_put_error(16, 0, reason, SOURCE, __LINE__)
struct ssl { int quic, handshake, shut, writes; };
APART void ERR_put_error(int library, int unused, int reason, const char *file, unsigned line) {
	__asm__ volatile("" : : "r"(library), "r"(unused), "r"(reason), "r"(file), "r"(line) : "memory");
}
APART void discard(struct ssl *ssl) { __asm__ volatile("" : : "r"(ssl) : "memory"); }
#define REFUSE(ssl, n) \
	if (ssl->writes > n) { FAIL(110); return -1; } \
	if (ssl->writes > 2 * n) { FAIL(182); return -1; }
#ifdef REFUSES_APART
#define REFUSES(IMPL) APART int IMPL##_refuses(struct ssl *ssl, int n) { REFUSE(ssl, n) return 0; }
#define ASKED(IMPL, ssl, n) if (IMPL##_refuses(ssl, n) < 0) return -1;
#else
#define REFUSES(IMPL)
#define ASKED(IMPL, ssl, n) REFUSE(ssl, n)
#endif
#define PEEKS(PEEK, IMPL) APART int PEEK(struct ssl *ssl, void *to, int n) { if (ssl->quic) { FAIL(66); return -1; } COPY(ssl) return IMPL(ssl, to, n); }
#define READS(READ, READER) APART int READ(struct ssl *ssl, void *to, int n) { n = READER; if (n > 0) discard(ssl); return n; }
#define COMMON(IMPL) ({ if (ssl->quic) { FAIL(66); return -1; } IMPL(ssl, to, n); })
#ifdef READ_PEEKS
APART void copy(struct ssl *ssl) { __asm__ volatile("" : : "r"(ssl) : "memory"); }
#define COPY(ssl) copy(ssl);
#else
#define COPY(ssl)
#endif
#if defined(NO_PEEK)
#define READERS(READ, PEEK, IMPL) READS(READ, COMMON(IMPL))
#elif defined(READ_PEEKS)
#define READERS(READ, PEEK, IMPL) PEEKS(PEEK, IMPL) READS(READ, PEEK(ssl, to, n))
#else
#define READERS(READ, PEEK, IMPL) PEEKS(PEEK, IMPL) READS(READ, COMMON(IMPL))
#endif
#define FUNCTIONS(WRITE, READ, PEEK, IMPL, HANDSHAKE, CONNECT) \
APART int HANDSHAKE(struct ssl *ssl) { if (!ssl->handshake) { FAIL(134); return -1; } return ssl->handshake++; } \
APART int CONNECT(struct ssl *ssl) { if (!ssl->handshake) { FAIL(134); return -1; } ssl->shut = 0; return ssl->handshake++; } \
REFUSES(IMPL) \
APART int IMPL(struct ssl *ssl, void *to, int n) { \
	if (ssl->quic > 1) { FAIL(226); return -1; } \
	while (!ssl->shut) { \
		if (HANDSHAKE(ssl) < 0) { FAIL(215); return -1; } \
		ASKED(IMPL, ssl, n) \
		ssl->shut += n; \
	} \
	return *(int *)to; \
} \
READERS(READ, PEEK, IMPL) \
APART int WRITE(struct ssl *ssl, const void *from, int n) { \
	if (ssl->quic) { FAIL(66); return -1; } \
	if (!ssl->handshake) { FAIL(226); return -1; } \
	if (HANDSHAKE(ssl) < 0) { FAIL(215); return -1; } \
	if (n < 0) { FAIL(111); return -1; } \
	return ssl->writes += n; \
}
#define SOURCE "third_party/boringssl/src/ssl/ssl_lib.cc"
FUNCTIONS(SSL_write, SSL_read, SSL_peek, ssl_read_impl, SSL_do_handshake, SSL_connect)
#ifdef AGAIN
FUNCTIONS(again_write, again_read, again_peek, again_impl, again_handshake, again_connect)
#endif
#undef SOURCE
#define SOURCE "src/other.cc"
FUNCTIONS(other_write, other_read, other_peek, other_impl, other_handshake, other_connect)
__asm__(".text\n.skip 1100000, 0x90\n");
`

// TestFindStripped checks that functions of BoringSSL are found without symbols, with the symbols of the program before stripping as the
// truth, and that nothing is found if it is not certain which they are.
func TestFindStripped(t *testing.T) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: there is no program to examine")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "boring.c")
	require.NoError(t, os.WriteFile(source, []byte(likeBoringSSL), 0o600))
	script := nothingExported(t, dir)
	build := func(name string, args ...string) string {
		path := filepath.Join(dir, name)
		out, err := exec.Command(compiler, append(args, "-Wl,--version-script="+script, "-O2", "-fPIC", "-shared", "-nostdlib", "-o", path, source)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return path
	}
	for name, defined := range map[string][]string{
		"as in grpcio": nil,
		"as in Envoy":  {"-DNO_PEEK", "-DREFUSES_APART"},
		"no SSL_peek":  {"-DNO_PEEK"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := elf.Open(build("whole", defined...))
			require.NoError(t, err)
			symbols, err := file.Symbols()
			require.NoError(t, err)
			require.NoError(t, file.Close())
			want := map[string]uint64{}
			for _, s := range symbols {
				want[s.Name] = s.Value
			}
			image := openImage(t, build("stripped", append(defined, "-s")...))
			found, err := Find(image)
			require.NoError(t, err)
			require.Equal(t, BoringSSL, found.Library)
			calls := map[string]Call{"SSL_read": Read, "SSL_write": Write, "SSL_do_handshake": FirstHandshake}
			require.Len(t, found.Functions, len(calls))
			parsed, err := elfimage.Parse(image)
			require.NoError(t, err)
			for _, f := range found.Functions {
				offset, inFile := parsed.OffsetOf(want[f.Name])
				require.True(t, inFile)
				require.Equal(t, Function{Name: f.Name, Call: calls[f.Name], Offset: offset}, f)
			}
		})
	}
	for uncertain, defined := range map[string]string{
		"there are two of each":                       "-DAGAIN",
		"the one that reads and says how is SSL_peek": "-DREAD_PEEKS",
	} {
		found, err := Find(openImage(t, build("uncertain", defined, "-s")))
		require.NoError(t, err)
		require.Empty(t, found, uncertain)
	}
}

// TestFindOpenSSLStripped checks that the functions of OpenSSL are found in a program without symbols by the names that they report with
// errors, with the symbols of the program before stripping as the truth.
func TestFindOpenSSLStripped(t *testing.T) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: there is no program to examine")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "client.c")
	require.NoError(t, os.WriteFile(source, []byte(`
extern void *TLS_method(void), *SSL_CTX_new(void *), *SSL_new(void *);
extern int SSL_read(void *, void *, int), SSL_write(void *, const void *, int);
int main(void) { char b[9]; void *s = SSL_new(SSL_CTX_new(TLS_method())); return SSL_write(s, b, 9) + SSL_read(s, b, 9); }
`), 0o600))
	for _, linked := range []string{"-static", "-static-pie"} {
		t.Run(linked, func(t *testing.T) {
			build := func(name string, args ...string) string {
				path := filepath.Join(dir, name+linked)
				if out, err := exec.Command(compiler, append(args, linked, "-o", path, source, "-lssl", "-lcrypto")...).CombinedOutput(); err != nil {
					t.Skipf("OpenSSL cannot be linked into a program here (libssl-dev): %s", out)
				}
				return path
			}
			file, err := elf.Open(build("whole"))
			require.NoError(t, err)
			symbols, err := file.Symbols()
			require.NoError(t, err)
			calls := map[string]Call{"ssl_read_internal": ReadCounted, "ssl_write_internal": WriteCounted, "ssl_peek_internal": Handshake, "SSL_do_handshake": FirstHandshake}
			var want []Function
			for _, s := range symbols {
				if call, ok := calls[s.Name]; ok {
					want = append(want, Function{Name: s.Name, Call: call, Offset: offsetOf(t, file, s.Value)})
				}
			}
			require.NoError(t, file.Close())
			require.Len(t, want, len(calls), "%v", want)
			found, err := Find(openImage(t, build("stripped", "-s")))
			require.NoError(t, err)
			require.Equal(t, Found{Library: OpenSSL, Functions: sorted(want)}, found)
		})
	}
}

// nothingExported is a linker's script that exports no names.
func nothingExported(t *testing.T, dir string) string {
	path := filepath.Join(dir, "none.map")
	require.NoError(t, os.WriteFile(path, []byte("{ local: *; };\n"), 0o600))
	return path
}

func openImage(t *testing.T, path string) elfimage.Image {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	stat, err := file.Stat()
	require.NoError(t, err)
	return elfimage.Image{Src: file, Size: uint64(stat.Size())}
}
