// SPDX-License-Identifier: Apache-2.0

package rfc9110_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

func TestMethods(t *testing.T) {
	for method, want := range map[string]string{"GET": "GET", "POST": "POST", "PATCH": "PATCH", "PROPFIND": "_OTHER", "get": "_OTHER", "": "_OTHER"} {
		require.Equal(t, want, rfc9110.Method([]byte(method)), method)
	}
	require.True(t, rfc9110.IsMethod([]byte("PROPFIND")))
	require.False(t, rfc9110.IsMethod([]byte("FROB")))
	require.True(t, rfc9110.BeginsMethod([]byte("UNSUBSCRIB")))
	require.False(t, rfc9110.BeginsMethod([]byte("GETS")))
	require.True(t, rfc9110.EndsMethod([]byte("ET")))
	require.False(t, rfc9110.EndsMethod([]byte("GET")))
	require.False(t, rfc9110.EndsMethod([]byte("BAN")))
}

func TestErrorTypes(t *testing.T) {
	for _, c := range []struct {
		role    l7.Role
		outcome l7.Outcome
		cause   l7.Cause
		status  int
		want    string
	}{
		{l7.RoleServer, l7.Complete, 0, 404, ""},
		{l7.RoleClient, l7.Complete, 0, 404, "404"},
		{l7.RoleServer, l7.Complete, l7.ClosedRemotely, 500, "500"},
		{l7.RoleClient, l7.Complete, 0, 0, ""},
		{l7.RoleServer, l7.Aborted, l7.ClosedRemotely, 200, "aborted"},
		{l7.RoleClient, l7.Unanswered, l7.CauseUnknown, 0, "no_response"},
		{l7.RoleClient, l7.Unanswered, l7.ClosedRemotely, 0, "no_response"},
		{l7.RoleClient, l7.Unanswered, l7.ClosedLocally, 0, "timeout"},
		{l7.RoleClient, l7.Unanswered, l7.TimedOut, 0, "timeout"},
		{l7.RoleServer, l7.Unanswered, l7.ClosedRemotely, 0, "client_closed"},
		{l7.RoleServer, l7.Unanswered, l7.ClosedLocally, 0, "no_response"},
		{l7.RoleServer, l7.Unanswered, l7.TimedOut, 0, "timeout"},
		{l7.RoleClient, l7.Lost, l7.ClosedLocally, 0, ""},
	} {
		require.Equal(t, c.want, rfc9110.ErrorType(c.role, c.outcome, c.cause, c.status), "%+v", c)
	}
}

func TestStatuses(t *testing.T) {
	for text, want := range map[string]int{"200": 200, "999": 999, "099": 0, "20": 0, "2000": 0, "2x0": 0, "": 0} {
		require.Equal(t, want, rfc9110.Status([]byte(text)), text)
	}
}

func TestPaths(t *testing.T) {
	path, query := rfc9110.SplitPath([]byte("/a?b=?c"))
	require.Equal(t, []string{"/a", "b=?c"}, []string{string(path), string(query)})
	path, query = rfc9110.SplitPath([]byte("/a"))
	require.Equal(t, "/a", string(path))
	require.Nil(t, query)
}

func TestTargets(t *testing.T) {
	for target, want := range map[string][4]string{
		"/a?b":                              {"", "", "/a", "b"},
		"*":                                 {"", "", "*", ""},
		"http://shop.example/x?a=b":         {"http", "shop.example", "/x", "a=b"},
		"http://alice:SECRET@shop.example":  {"http", "shop.example", "", ""},
		"http://a:SE@CRET@shop.example?c@d": {"http", "shop.example", "", "c@d"},
		"alice:SECRET@shop.example:80":      {"", "", "shop.example:80", ""},
		"alice:SECRET@shop.example/b@c":     {"", "", "shop.example/b@c", ""},
		"":                                  {"", "", "", ""},
	} {
		got := rfc9110.SplitTarget([]byte(target))
		require.Equal(t, want, [4]string{string(got.Scheme), string(got.Host), string(got.Path), string(got.Query)}, target)
	}
}
