// SPDX-License-Identifier: Apache-2.0
// Stands before OpenSSL as LibreSSL's functions are: those that count call those that do not.
#include <dlfcn.h>
#include <stddef.h>

static void *real(const char *name)
{
	void *library = dlopen("libssl.so.3", RTLD_LAZY);

	return dlsym(library ? library : dlopen("libssl.so.1.1", RTLD_LAZY), name);
}

int SSL_read(void *ssl, void *buffer, int size)
{
	int (*next)(void *, void *, int) = real("SSL_read");

	return next(ssl, buffer, size);
}

int SSL_write(void *ssl, const void *buffer, int size)
{
	int (*next)(void *, const void *, int) = real("SSL_write");

	return next(ssl, buffer, size);
}

int SSL_read_ex(void *ssl, void *buffer, size_t size, size_t *given)
{
	int n = SSL_read(ssl, buffer, size);

	*given = n > 0 ? n : 0;
	return n > 0;
}

int SSL_write_ex(void *ssl, const void *buffer, size_t size, size_t *taken)
{
	int n = SSL_write(ssl, buffer, size);

	*taken = n > 0 ? n : 0;
	return n > 0;
}
