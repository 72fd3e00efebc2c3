// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShopHasTrouble checks that payments are slow in a part of each period, and products are not.
func TestShopHasTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		handler := shop(start)
		ask := func(method, path string) (status int, took time.Duration) {
			before := time.Now()
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequest(method, path, nil))
			return response.Code, time.Since(before)
		}
		for at, want := range map[time.Duration]time.Duration{
			0: normalPay, troubleBegin: slowPay, troubleEnd: normalPay, troublePeriod + troubleBegin: slowPay,
		} {
			handler = shop(time.Now().Add(-at))
			status, took := ask(http.MethodPost, "/pay")
			require.Contains(t, []int{http.StatusCreated, http.StatusServiceUnavailable}, status)
			require.Equal(t, want, took, "after %s", at)
		}
		for path, want := range map[string]int{"/products": 200, "/products/8": 200, "/products/17": 404} {
			status, took := ask(http.MethodGet, path)
			require.Equal(t, want, status, path)
			require.Zero(t, took)
		}
	})
}

// TestShopEndsWithItsInput checks that the shop serves until its input ends, and buy until it is stopped.
func TestShopEndsWithItsInput(t *testing.T) {
	in, end := io.Pipe()
	address, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveShop(in, out) }()
	line, err := bufio.NewReader(address).ReadString('\n')
	require.NoError(t, err)
	url := "http://" + strings.TrimSpace(line)
	response, err := http.Get(url + "/products")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	done, left := make(chan struct{}), make(chan struct{})
	go func() { buy(url, done); close(left) }()
	close(done)
	<-left
	require.NoError(t, end.Close())
	require.NoError(t, <-ended)
}
