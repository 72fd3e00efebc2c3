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
		status  int
		want    string
	}{
		{l7.RoleServer, l7.Complete, 404, ""},
		{l7.RoleClient, l7.Complete, 404, "404"},
		{l7.RoleServer, l7.Complete, 500, "500"},
		{l7.RoleClient, l7.Complete, 0, ""},
		{l7.RoleServer, l7.Aborted, 200, "aborted"},
		{l7.RoleClient, l7.Unanswered, 0, "no_response"},
		{l7.RoleClient, l7.Lost, 0, ""},
	} {
		require.Equal(t, c.want, rfc9110.ErrorType(c.role, c.outcome, c.status), "%+v", c)
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
