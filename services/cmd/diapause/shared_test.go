package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// shownBy gives what is shown of a gateway that sends messages, text if they begin with a brace, and closes with a status, or
// has ctx end if that is 0.
func shownBy(t *testing.T, status websocket.StatusCode, messages ...string) (string, error) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		_, _, _ = ws.Read(r.Context())
		for _, m := range messages {
			kind := websocket.MessageBinary
			if strings.HasPrefix(m, "{") {
				kind = websocket.MessageText
			}
			_ = ws.Write(r.Context(), kind, []byte(m))
		}
		if status != 0 {
			_ = ws.Close(status, "see the error before")
			return
		}
		leave()
		_, _, _ = ws.Read(r.Context()) // until the client is gone
	}))
	defer srv.Close()
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	var out bytes.Buffer
	err = showShared(ctx, ws, &out)
	return out.String(), err
}

// What a stranger's server sends makes this terminal answer nothing.
func TestSharedIsFiltered(t *testing.T) {
	const head = "\x00\x00\x00\x00\x00\x00\x00\x00"
	got, err := shownBy(t, websocket.StatusNormalClosure, "s"+head+"one\x1b[c", "o"+head+"two\x1b]52;c;?\x07\x05\x1b[", "o"+head+"6nthree\x1b[3", "s"+head+"1mfour")
	if err != nil || got != "onetwothree1mfour" {
		t.Errorf("it shows %q: %v", got, err)
	}
}

// The end of a watch is said in words of the gateway, if it gave any; one that leaves isn't told of sockets.
func TestSharedEnds(t *testing.T) {
	const problem = `{"type":"error","problem":{"status":503,"detail":"the terminal can't be reached"}}`
	if _, err := shownBy(t, websocket.StatusInternalError, problem); err == nil || err.Error() != "the terminal can't be reached" {
		t.Errorf("after an error: %v", err)
	}
	if _, err := shownBy(t, websocket.StatusInternalError, problem, `{"type":"attached"}`); err == nil || strings.Contains(err.Error(), "reached") {
		t.Errorf("after an error that has passed: %v", err)
	}
	if _, err := shownBy(t, 0); !errors.Is(err, errInterrupted) || err.Error() != "interrupted" {
		t.Errorf("when it is left: %v", err)
	}
}
