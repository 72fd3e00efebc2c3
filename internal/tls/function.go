// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"errors"
	"slices"
)

// Library is a TLS library, by its name in the configuration.
type Library string

// Libraries of TLS.
const (
	OpenSSL   Library = "openssl"
	BoringSSL Library = "boringssl"
	GnuTLS    Library = "gnutls"
	Go        Library = "go"
	Node      Library = "node" // OpenSSL as Node.js has it in its program
	Java      Library = "java" // of the Java virtual machine: compiled at run time, without functions to attach to
)

// Libraries are all of them.
var Libraries = []Library{OpenSSL, BoringSSL, GnuTLS, Go, Node, Java}

// errJava is why there is nothing to attach to in the Java virtual machine.
var errJava = errors.New("requests through Java's TLS (JSSE) are unavailable: the virtual machine compiles it while it runs, so that there is no " +
	"function to attach to. Its connections are counted with the reason tls_opaque_java when they end; observe the other side or a proxy")

// Unavailable returns why a library can never be attached to, nil if it can.
func (l Library) Unavailable() error {
	if l == Java {
		return errJava
	}
	return nil
}

// Call is what a function does, and how it returns the result.
type Call int

// Calls of TLS libraries. The first argument of all is the library's object for the connection.
const (
	// Read is SSL_read(object, buffer, size): it returns how many bytes it read.
	Read Call = iota
	// Write is SSL_write(object, buffer, size).
	Write
	// ReadCounted is SSL_read_ex(object, buffer, size, given): it returns 1 and stores how many.
	ReadCounted
	// WriteCounted is SSL_write_ex(object, buffer, size, taken).
	WriteCounted
	// WriteFlagged is ssl_write_internal(object, buffer, size, flags, taken) of OpenSSL since 3.3.
	WriteFlagged
	// SendFile is SSL_sendfile(object, file, offset, size, flags): it returns how many bytes it took. The kernel encrypts them, and user
	// space never sees them.
	SendFile
	// Handshake is SSL_do_handshake(object), or another function that uses the socket and transfers no data of the program, as SSL_peek: a
	// later read returns the same data.
	Handshake
	// FirstHandshake is Handshake if no function that frees objects is known: it is an object's first call.
	FirstHandshake
	// Free is SSL_free(object): another object may have its address.
	Free
	// GoRead, GoWrite and GoHandshake are methods of Go's tls.Conn.
	GoRead
	GoWrite
	GoHandshake
	// OldGoRead, OldGoWrite and OldGoHandshake are methods of Go's tls.Conn with their arguments on the stack.
	OldGoRead
	OldGoWrite
	OldGoHandshake
	// Calls is the number of calls.
	Calls int = iota
)

// OfGo reports whether a call is one of Go's methods. Return addresses on goroutines' stacks must not be changed: a goroutine continues in
// another thread, and the kernel kills the process there.
func (c Call) OfGo() bool { return c >= GoRead && c <= OldGoHandshake }

// Function is a function of a TLS library.
type Function struct {
	Name string
	Call Call
	// Offset is where it begins in the file, in bytes; in Go behind the check of the stack, if that has the function begin anew (see
	// [disasm.BehindStackCheck]).
	Offset uint64
	// Returns are, of Go alone, the offsets in the file where it returns; there is at least one.
	Returns []uint64
}

// Found is what a binary has of a TLS library.
type Found struct {
	// Library is "" where the binary has none.
	Library Library
	// Functions are empty if the library has none that can be attached to.
	Functions []Function
	// OnStack: the functions of Go have their arguments on the stack. On x86-64, GoroutineAt is then the offset from the base of a thread's
	// segment FS, in bytes, of the goroutine that it runs.
	OnStack     bool
	GoroutineAt int64
	// Rustls reports that rustls is in the binary, which cannot be attached to, alone or in addition to Library.
	Rustls bool
}

// openSSL are the functions of OpenSSL since 0.9.8 and of its forks. Those that return a count exist since 1.1.1, the one that sends files
// since 3.0. A read before the end of the handshake ends with 2 if there is no more data.
var openSSL = map[string]Call{
	"SSL_read":             Read,
	"SSL_write":            Write,
	"SSL_read_ex":          ReadCounted,
	"SSL_write_ex":         WriteCounted,
	"SSL_read_early_data":  ReadCounted,
	"SSL_write_early_data": WriteCounted,
	"SSL_sendfile":         SendFile,
	"SSL_peek":             Handshake,
	"SSL_peek_ex":          Handshake,
	"SSL_do_handshake":     Handshake,
	"SSL_free":             Free,
}

// openSSLBefore1_1 are those that do not call SSL_do_handshake in OpenSSL before 1.1, nor in LibreSSL.
var openSSLBefore1_1 = map[string]Call{
	"SSL_accept":  Handshake,
	"SSL_connect": Handshake,
}

// gnuTLS are those of GnuTLS.
var gnuTLS = map[string]Call{
	"gnutls_record_recv": Read,
	"gnutls_record_send": Write,
	"gnutls_handshake":   Handshake,
	"gnutls_deinit":      Free,
}

// goTLS are the methods of Go's tls.Conn.
var goTLS = map[string]Call{
	"crypto/tls.(*Conn).Read":            GoRead,
	"crypto/tls.(*Conn).Write":           GoWrite,
	"crypto/tls.(*Conn).clientHandshake": GoHandshake,
	"crypto/tls.(*Conn).serverHandshake": GoHandshake,
}

// oldGo are the calls with arguments on the stack, by those with arguments in registers.
var oldGo = map[Call]Call{GoRead: OldGoRead, GoWrite: OldGoWrite, GoHandshake: OldGoHandshake}

// Names that distinguish libraries with the same functions.
const (
	ofBoringSSL = "SSL_CTX_set_custom_verify"
	ofNode      = "node_module_register"
	ofJava      = "JNI_CreateJavaVM"
	before1_1   = "SSL_library_init" // later it is a macro
)

// complete reports whether functions for both directions exist: one alone belongs to another program.
func complete(functions []Function, read, write Call) bool {
	has := func(call Call) bool {
		return slices.ContainsFunc(functions, func(f Function) bool { return f.Call == call })
	}
	return has(read) && has(write)
}
