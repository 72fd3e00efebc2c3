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
		"/u/user-8831":                                     "/u/{id}",
		"/u/order_12345":                                   "/u/{id}",
		"/cve/CVE-2021-44228":                              "/cve/{id}",
		"/t/sess_8f3a9c":                                   "/t/{id}",
		"/t/my-post-8f3a9c":                                "/t/{id}",
		"/s/a1b2c3d4":                                      "/s/{id}",
		"/a/1,2,3":                                         "/a/{id}",
		"/map/48.85,2.35":                                  "/map/{id}",
		"/u/12;v=1/x":                                      "/u/{id}/x",
		"/cart;jsessionid=A1/b":                            "/cart/b",
		"/users/bob@x.com":                                 "/users/{id}",
		"/users/bob%40163.com/a":                           "/users/{id}/a",
		"/users/b.o-b@mail.x.de":                           "/users/{id}",
		"/reset/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U/x": "/reset/{id}/x",
		"/eyJhbGciOiJub25lIn0.e30.": "/{id}",
		"/eyJs/eyJavascript":        "/eyJs/eyJavascript",

		"/proxy/http://:secret@host/x":                            "/proxy/http://{id}/x",
		"//:hunter@redis/x":                                       "//{id}/x",
		"/proxy/http://us@er:pw@host/x":                           "/proxy/http://{id}/x",
		"/proxy/http://user@host/x":                               "/proxy/http://{id}/x",
		"/proxy/http:/token@host/x":                               "/proxy/http:/{id}/x",
		"/proxy/user:pw@host":                                     "/proxy/{id}",
		"/to/http%3A%2F%2Fuser%3Apw%40host/x":                     "/to/{id}/x",
		"//a;b:pw@host/x":                                         "//{id}/x",
		"/proxy/http://host:8080/x":                               "/proxy/http://host:8080/x",
		"/proxy/http://" + strings.Repeat("pw:", 100) + "@host/x": "/proxy/http://{id}",

		"/report-2026":              "/report-2026",
		"/windows-11":               "/windows-11",
		"/error-404":                "/error-404",
		"/iso-8859-1":               "/iso-8859-1",
		"/x86_64":                   "/x86_64",
		"/apis/apps/v1beta1/i18n":   "/apis/apps/v1beta1/i18n",
		"/md5sha1/k8s/mp3to4/b2b":   "/md5sha1/k8s/mp3to4/b2b",
		"/http2/v1/ipv6/s3/utf-8":   "/http2/v1/ipv6/s3/utf-8",
		"/npm/react@18.2.0/@a/b@c":  "/npm/react@18.2.0/@a/b@c",
		"/img/logo@2x.png":          "/img/logo@2x.png",
		"/f/12.5":                   "/f/12.5", // as a version
		"/a,b/c=1":                  "/a,b/c=1",
		"/f/a-1.2.3/jquery-3.7.min": "/f/a-1.2.3/jquery-3.7.min",
	} {
		require.Equal(t, want, string(Template(nil, []byte(path))), path)
	}
}

func TestRoutesAreBounded(t *testing.T) {
	table := NewTable(3)
	for i := range 100 {
		require.Equal(t, "/users/{id}", table.Of(fmt.Appendf(nil, "/users/%d", i), true))
	}
	require.Equal(t, "/a", table.Of([]byte("/a"), true))
	require.Equal(t, "/b", table.Of([]byte("/b"), true))
	require.Equal(t, Other, table.Of([]byte("/c"), true))
	require.Equal(t, Other, table.Of([]byte("/d"), true))
	require.Equal(t, "/a", table.Of([]byte("/a"), true), "what is known stays")
	require.Equal(t, 3, table.Len())
}

// TestWhatIsNotFoundLeavesRoom checks that paths at which nothing is found take half of the places at most, also those that come first,
// and that a route takes none of these any more once something was found there.
func TestWhatIsNotFoundLeavesRoom(t *testing.T) {
	table := NewTable(4)
	require.Equal(t, "/a", table.Of([]byte("/a"), false))
	require.Equal(t, "/b", table.Of([]byte("/b"), false))
	for i := range 100 {
		require.Equal(t, Other, table.Of(fmt.Appendf(nil, "/wp-%c", 'a'+i%26), false))
	}
	require.Equal(t, "/c", table.Of([]byte("/c"), true))
	require.Equal(t, "/a", table.Of([]byte("/a"), true))
	require.Equal(t, "/a", table.Of([]byte("/a"), false))
	require.Equal(t, "/d", table.Of([]byte("/d"), false), "there is something at /a")
	require.Equal(t, Other, table.Of([]byte("/e"), true))
	require.Equal(t, "/b", table.Of([]byte("/b"), true))
	require.Equal(t, 4, table.Len())
}

// TestRoutesLeave checks that places of routes that are not wanted any more are free again, those at which nothing was found among them.
func TestRoutesLeave(t *testing.T) {
	table := NewTable(4)
	table.Of([]byte("/a"), false)
	table.Of([]byte("/b"), false)
	table.Of([]byte("/c"), true)
	table.Keep(func(route string) bool { return route == "/b" })
	require.Equal(t, 1, table.Len())
	require.Equal(t, "/d", table.Of([]byte("/d"), false))
	require.Equal(t, Other, table.Of([]byte("/e"), false), "half of the places are taken again")
	require.Equal(t, "/a", table.Of([]byte("/a"), true))
}

func TestKnownRoutesAllocateNothing(t *testing.T) {
	table, path := NewTable(10), []byte("/users/42/orders/0f8fad5b-d9cb-469f-a165-70867728950e")
	table.Of(path, true)
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Of(path, true) }))
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
