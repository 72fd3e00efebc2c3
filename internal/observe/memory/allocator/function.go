// SPDX-License-Identifier: Apache-2.0

package allocator

// Call is how the arguments of a function say what it is asked for.
type Call int

// Calls of allocating and freeing functions.
const (
	// First is malloc(size): the first argument is the size.
	First Call = iota
	// FirstOuter is like First; it may be built on another allocating function.
	FirstOuter
	// FirstThrows is like FirstOuter; it throws an exception when it fails.
	FirstThrows
	// Product is calloc(count, size).
	Product
	// Second is memalign(alignment, size).
	Second
	// Third is posix_memalign(to, alignment, size).
	Third
	// Reallocate is realloc(old, size).
	Reallocate
	// ReallocateProduct is reallocarray(old, count, size).
	ReallocateProduct
	// Release is free(address).
	Release
	// Go is runtime.mallocgc(size, type, zero).
	Go
	// Calls is the number of the others.
	Calls int = iota
)

// Function is a function of a binary that allocates or frees.
type Function struct {
	// Name is that of the symbol; of several at one address, one of them.
	Name string
	Call Call
	// Offset is where it begins in the file, in bytes; of Go's functions where they go on behind the check of their stack.
	Offset uint64
}

// malloc is the family that every C library has, with common additions to it.
var malloc = map[string]Call{
	"malloc":         First,
	"calloc":         Product,
	"realloc":        Reallocate,
	"reallocarray":   ReallocateProduct,
	"memalign":       Second,
	"aligned_alloc":  Second,
	"posix_memalign": Third,
	"valloc":         FirstOuter,
	"pvalloc":        FirstOuter,
	"free":           Release,
	"cfree":          Release,

	"free_sized":         Release, // C23
	"free_aligned_sized": Release,
}

// jemalloc are its additional functions; see jemalloc(3).
var jemalloc = map[string]Call{
	"mallocx":  FirstOuter,
	"rallocx":  Reallocate,
	"dallocx":  Release,
	"sdallocx": Release,
}

// prefixes are put before all of jemalloc's names where it does not replace
// malloc: the usual one, and that of Rust's crates.
var prefixes = []string{"je_", "_rjem_"}

// tcmalloc are its names in addition to malloc's; see gperftools' tcmalloc.h.
var tcmalloc = map[string]Call{
	"tc_malloc":           FirstOuter,
	"tc_calloc":           Product,
	"tc_realloc":          Reallocate,
	"tc_memalign":         Second,
	"tc_posix_memalign":   Third,
	"tc_valloc":           FirstOuter,
	"tc_pvalloc":          FirstOuter,
	"tc_new":              FirstThrows,
	"tc_newarray":         FirstThrows,
	"tc_new_nothrow":      FirstOuter,
	"tc_newarray_nothrow": FirstOuter,
	"tc_free":             Release,
	"tc_cfree":            Release,
	"tc_free_sized":       Release,
	"tc_delete":           Release,
	"tc_deletearray":      Release,
	"tc_delete_sized":     Release,
}

// operators are C++'s new and delete (Itanium C++ ABI, 64 bit). They count only
// where the allocator brings them: those of the C++ library call malloc.
var operators = map[string]Call{
	"_Znwm":                               FirstThrows,
	"_Znam":                               FirstThrows,
	"_ZnwmSt11align_val_t":                FirstThrows,
	"_ZnamSt11align_val_t":                FirstThrows,
	"_ZnwmRKSt9nothrow_t":                 FirstOuter,
	"_ZnamRKSt9nothrow_t":                 FirstOuter,
	"_ZnwmSt11align_val_tRKSt9nothrow_t":  FirstOuter,
	"_ZnamSt11align_val_tRKSt9nothrow_t":  FirstOuter,
	"_ZdlPv":                              Release,
	"_ZdaPv":                              Release,
	"_ZdlPvm":                             Release,
	"_ZdaPvm":                             Release,
	"_ZdlPvRKSt9nothrow_t":                Release,
	"_ZdaPvRKSt9nothrow_t":                Release,
	"_ZdlPvSt11align_val_t":               Release,
	"_ZdaPvSt11align_val_t":               Release,
	"_ZdlPvmSt11align_val_t":              Release,
	"_ZdaPvmSt11align_val_t":              Release,
	"_ZdlPvSt11align_val_tRKSt9nothrow_t": Release,
	"_ZdaPvSt11align_val_tRKSt9nothrow_t": Release,
}

// Symbols that only an allocator with operators of its own has.
var ownOperators = []string{"mallctl", "tc_malloc", "tc_new"}

// wanted has the call of each name that may count, and marks, which have none.
var wanted = allNames()

// mark is the call of names that only say which library this is.
const mark Call = -1

func allNames() map[string]Call {
	all := map[string]Call{}
	for _, family := range []map[string]Call{malloc, jemalloc, tcmalloc, operators} {
		for name, call := range family {
			all[name] = call
		}
	}
	for _, prefix := range prefixes {
		for _, family := range []map[string]Call{malloc, jemalloc} {
			for name, call := range family {
				all[prefix+name] = call
			}
		}
	}
	for _, name := range ownOperators {
		if _, ok := all[name]; !ok {
			all[name] = mark
		}
	}
	return all
}
