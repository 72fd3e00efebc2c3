// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"errors"
	"slices"
)

// Library is whose functions a binary has, as the configuration calls it.
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

// errJava says why there is nothing to attach to in the Java virtual machine.
var errJava = errors.New("requests through Java's TLS (JSSE) are unavailable: the virtual machine compiles it while it runs, so that there is no " +
	"function to attach to. Its connections are counted with the reason tls_opaque_java when they end; what the other side or a proxy is seen to do is told")

// Unavailable says why a library can never be looked into, nil where it can.
func (l Library) Unavailable() error {
	if l == Java {
		return errJava
	}
	return nil
}

// Call is what a function does, and how it says so.
type Call int

// Calls of TLS libraries. All are given the library's object for the connection first.
const (
	// Read is SSL_read(object, buffer, size): it returns how many bytes it gave.
	Read Call = iota
	// Write is SSL_write(object, buffer, size).
	Write
	// ReadCounted is SSL_read_ex(object, buffer, size, given): it returns 1 and stores how many.
	ReadCounted
	// WriteCounted is SSL_write_ex(object, buffer, size, taken).
	WriteCounted
	// WriteFlagged is ssl_write_internal(object, buffer, size, flags, taken) of OpenSSL since 3.3.
	WriteFlagged
	// SendFile is SSL_sendfile(object, file, offset, size, flags): it returns how many bytes it took, which the kernel encrypts and nobody
	// sees.
	SendFile
	// Handshake is SSL_do_handshake(object), or another function that uses the socket and moves nothing of the program's, as SSL_peek: what it
	// gives is given again.
	Handshake
	// FirstHandshake is the same where nothing tells when objects are freed: it is an object's first call.
	FirstHandshake
	// Free is SSL_free(object): another object may have its address.
	Free
	// GoRead, GoWrite and GoHandshake are methods of Go's tls.Conn.
	GoRead
	GoWrite
	GoHandshake
	// OldGoRead, OldGoWrite and OldGoHandshake are the same with their arguments on the stack.
	OldGoRead
	OldGoWrite
	OldGoHandshake
	// Calls is the number of the others.
	Calls int = iota
)

// OfGo tells whether a call is one of Go's methods. Return addresses on goroutines' stacks must not
// be changed: a goroutine goes on in another thread, and the kernel ends the process there.
func (c Call) OfGo() bool { return c >= GoRead && c <= OldGoHandshake }

// Function is a function of a TLS library.
type Function struct {
	Name string
	Call Call
	// Offset is where it begins in the file, in bytes; of Go behind the check of the stack, where that has the function begin anew (see
	// [symbol.BehindStackCheck]).
	Offset uint64
	// Returns are, of Go alone, where it returns, in the same way; there is one at least.
	Returns []uint64
}

// Found is what a binary has of a TLS library.
type Found struct {
	// Library is "" where the binary has none.
	Library Library
	// Functions are none where the library has none that can be attached to.
	Functions []Function
	// OnStack says, of Go, that the functions have their arguments on the stack. GoroutineAt is then, on x86-64, how far from the base of
	// its segment FS a thread has the goroutine that it runs, in bytes.
	OnStack     bool
	GoroutineAt int64
}

// openSSL are the functions of OpenSSL since 0.9.8, and of what descends from it; those
// that count are there since 1.1.1, the one that sends files since 3.0. What is read before
// the handshake is over ends with 2 where there is no more of it.
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

// openSSLBefore1_1 are those that do not call SSL_do_handshake there, nor in LibreSSL.
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

// Names that tell libraries apart which have the same functions.
const (
	ofBoringSSL = "SSL_CTX_set_custom_verify"
	ofNode      = "node_module_register"
	ofJava      = "JNI_CreateJavaVM"
	before1_1   = "SSL_library_init" // later it is a macro
)

// complete tells whether both directions are there: one alone is another program's.
func complete(functions []Function, read, write Call) bool {
	has := func(call Call) bool {
		return slices.ContainsFunc(functions, func(f Function) bool { return f.Call == call })
	}
	return has(read) && has(write)
}
