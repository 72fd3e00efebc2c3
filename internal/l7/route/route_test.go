// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentifiersBecomePlaceholders(t *testing.T) {
	for path, want := range map[string]string{
		"/":                                     "/",
		"":                                      "",
		"*":                                     "*",
		"/users":                                "/users",
		"/users/42":                             "/users/{id}",
		"/users/42/":                            "/users/{id}/",
		"/users/42/orders/7":                    "/users/{id}/orders/{id}",
		"//42":                                  "//{id}",
		"/api/v1/items":                         "/api/v1/items",
		"/api/2.0/items":                        "/api/2.0/items",
		"/oauth2/token":                         "/oauth2/token",
		"/days/2026-11-22":                      "/days/{id}",
		"/hosts/10.1.2.3":                       "/hosts/{id}",
		"/0f8fad5b-d9cb-469f-a165-70867728950E": "/{id}",
		"/0f8fad5b-d9cb-469f-a165-7086772895xx": "/{id}", // a long token of its own
		"/deadbeef":                             "/deadbeef",
		"/commit/3f786850e387550fdab836ed7e6dc881de23001b": "/commit/{id}",
		"/objects/507f1f77bcf86cd799439011":                "/objects/{id}",
		"/ulid/01ARZ3NDEKTSV4RRFFQ69G5FAV":                 "/ulid/{id}",
		"/blog/ten-things-to-do-in-2026-with-go":           "/blog/ten-things-to-do-in-2026-with-go",
		"/assets/main.8f3a1b2c4d5e6f70.js":                 "/assets/main.8f3a1b2c4d5e6f70.js",
		"/caf%C3%A9/7":                                     "/caf%C3%A9/{id}",
	} {
		require.Equal(t, want, string(Template(nil, []byte(path))), path)
	}
}

func TestRoutesAreBounded(t *testing.T) {
	table := NewTable(3)
	for i := range 100 {
		require.Equal(t, "/users/{id}", table.Of(fmt.Appendf(nil, "/users/%d", i)))
	}
	require.Equal(t, "/a", table.Of([]byte("/a")))
	require.Equal(t, "/b", table.Of([]byte("/b")))
	require.Equal(t, Other, table.Of([]byte("/c")))
	require.Equal(t, Other, table.Of([]byte("/d")))
	require.Equal(t, "/a", table.Of([]byte("/a")), "what is known stays")
	require.Equal(t, 3, table.Len())
	require.Equal(t, uint64(2), table.Refused)
}

func TestKnownRoutesAllocateNothing(t *testing.T) {
	table, path := NewTable(10), []byte("/users/42/orders/0f8fad5b-d9cb-469f-a165-70867728950e")
	table.Of(path)
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Of(path) }))
}

func FuzzTemplate(f *testing.F) {
	f.Add([]byte("/users/42"))
	f.Fuzz(func(t *testing.T, path []byte) {
		got := Template(nil, path)
		require.LessOrEqual(t, len(got), longestPath*(1+len(id)))
		if len(got) <= longestPath {
			require.Equal(t, string(got), string(Template(nil, got)), "a route is its own route")
		}
		if len(path) > 0 && path[0] == '/' && len(path) <= longestPath {
			require.Equal(t, bytes.Count(path, []byte("/")), strings.Count(string(got), "/"))
		}
	})
}
