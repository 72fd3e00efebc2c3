// SPDX-License-Identifier: Apache-2.0

//go:build browser

package flamegraph

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tab is a page in a headless Chromium, which is controlled by the DevTools protocol over a pipe.
type tab struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	session string
	last    int
	errors  []string // of the page
	loads   int
}

// message is one of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// newTab starts Chromium, which ends with the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	read, in, err := os.Pipe()
	require.NoError(t, err)
	out, write, err := os.Pipe()
	require.NoError(t, err)
	browser := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	browser.ExtraFiles = []*os.File{read, write}
	require.NoError(t, browser.Start())
	require.NoError(t, read.Close())
	require.NoError(t, write.Close())
	b := &tab{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close() // upon which Chromium ends
		_ = browser.Wait()
		_ = out.Close()
	})
	var target struct{ TargetID string }
	b.into(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	b.into(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil)
	}
	b.size(1400, 900)
	return b
}

// call sends a command and returns its result.
func (b *tab) call(method string, params any) json.RawMessage {
	b.t.Helper()
	b.last++
	if params == nil {
		params = struct{}{}
	}
	text, err := json.Marshal(message{ID: b.last, Session: b.session, Method: method, Params: params})
	require.NoError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b.t, err, method)
	for {
		got := b.read()
		if got.ID == b.last {
			require.Empty(b.t, string(got.Error), method)
			return got.Result
		}
	}
}

func (b *tab) into(result any, method string, params any) {
	b.t.Helper()
	require.NoError(b.t, json.Unmarshal(b.call(method, params), result))
}

// read returns the next message and keeps what the tests ask for of events.
func (b *tab) read() message {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	require.NoError(b.t, err, "Chromium has ended")
	var got message
	require.NoError(b.t, json.Unmarshal(text[:len(text)-1], &got))
	switch got.Method {
	case "Page.loadEventFired":
		b.loads++
	case "Runtime.exceptionThrown", "Log.entryAdded":
		b.errors = append(b.errors, fmt.Sprint(got.Params))
	}
	return got
}

// open loads a page and waits for it. hash is the state after # in its address.
func (b *tab) open(page []byte, hash string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "page.html")
	require.NoError(b.t, os.WriteFile(file, page, 0o600))
	loads := b.loads
	b.call("Page.navigate", map[string]any{"url": "file://" + file + "#" + hash})
	for b.loads == loads {
		b.read()
	}
	require.Empty(b.t, b.errors)
	require.NotEmpty(b.t, b.text("document.documentElement.dataset.drawn"), "the script ended early")
}

// text is a value of JavaScript.
func (b *tab) text(expression string) string {
	b.t.Helper()
	return b.evaluate(expression, false)
}

// wait is the value of a promise.
func (b *tab) wait(promise string) string {
	b.t.Helper()
	return b.evaluate(promise, true)
}

func (b *tab) evaluate(expression string, promise bool) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	b.into(&out, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": promise})
	require.Nil(b.t, out.ExceptionDetails, expression)
	if out.Result.Value == nil {
		return ""
	}
	return fmt.Sprint(out.Result.Value)
}

// shown is the text of an element.
func (b *tab) shown(id string) string {
	return b.text("document.getElementById('" + id + "').textContent")
}

// press sends a key as a keyboard does.
func (b *tab) press(key string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	if len(key) == 1 {
		down["text"] = key
	}
	b.call("Input.dispatchKeyEvent", down)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// click presses the button of the mouse at a point.
func (b *tab) click(x, y float64) {
	b.t.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})
	}
}

func (b *tab) size(width, height int) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// memory is the most that the process of the page had resident, in bytes.
func (b *tab) memory() (most int64) {
	b.t.Helper()
	page := b.session
	b.session = "" // the browser is asked
	var out struct {
		ProcessInfo []struct {
			Type string
			ID   int
		}
	}
	b.into(&out, "SystemInfo.getProcessInfo", nil)
	b.session = page
	for _, p := range out.ProcessInfo {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.ID))
		if err != nil || p.Type != "renderer" {
			continue // it has ended
		}
		_, line, _ := strings.Cut(string(text), "VmHWM:")
		var kilobytes int64
		_, err = fmt.Sscan(line, &kilobytes)
		require.NoError(b.t, err)
		most = max(most, kilobytes<<10)
	}
	return most
}
