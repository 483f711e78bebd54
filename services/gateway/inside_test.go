package gateway

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// inside answers a request for the inside of the session.
func (b *recordedBench) inside(conn net.Conn, r attach.Request) {
	input := func() string {
		_ = attach.WriteFrame(conn, attach.FrameStarted, nil)
		var all strings.Builder
		for {
			kind, payload, err := attach.ReadFrame(conn)
			if err != nil || kind == attach.FrameStdinEOF {
				return all.String()
			}
			all.Write(payload)
		}
	}
	switch {
	case r.Op == attach.OpScreen:
		_ = attach.SendScreen(conn, attach.Screen{Size: attach.Size{Rows: 2, Cols: 20}}, []byte("\x1b[31m<b>one"))
		return
	case r.Op == attach.OpExec && r.Argv[0] == "none":
		_ = attach.WriteError(conn, "no such program")
		return
	case r.Op == attach.OpExec:
		_ = attach.WriteFrame(conn, attach.FrameStdout, []byte(input()+r.Dir))
		_ = attach.WriteFrame(conn, attach.FrameStderr, []byte("wrong\xff"))
	case r.Op == attach.OpGet:
		_ = attach.WriteFrame(conn, attach.FrameStdout, []byte("a tar of "+r.Path))
	case r.Op == attach.OpPut:
		if got := input() + " in " + r.Path; got != "a tar in /b" {
			b.Errorf("put is %q", got)
		}
	}
	_ = attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{Code: 7})
}

// TestInside: a session's inside is for those who may use its terminal.
func TestInside(t *testing.T) {
	b := newRecordedBench(t)
	b.answers("ensure", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, UID: "u", State: schemas.Running, Host: "h"}, nil
	})
	if got := read[screen.Shown](b.bench, b.do("GET", webPath+"/screen", "")); len(got.Lines) != 2 || got.Lines[0] != "<b>one" {
		t.Errorf("the screen is %+v", got)
	}
	for form, want := range map[string]string{"text": "<b>one\n", "html": "&lt;b&gt;one"} {
		r := b.do("GET", webPath+"/screen?format="+form, "")
		if text := readAll(b.bench, r); !strings.Contains(text, want) || !strings.HasPrefix(r.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("as %s it is %q, %v", form, text, r.Header)
		}
	}
	got := read[Executed](b.bench, b.do("POST", webPath+"/exec", `{"command":["cat"],"stdin":"in ","dir":"/srv"}`))
	if want := (Executed{Exit: 7, Stdout: "in /srv", Stderr: "wrong\ufffd"}); got != want {
		t.Errorf("exec is %+v", got)
	}
	b.refused("a program that isn't there", b.do("POST", webPath+"/exec", `{"command":["none"]}`), http.StatusConflict)
	b.refused("no program", b.do("POST", webPath+"/exec", `{"command":[]}`), http.StatusBadRequest)
	r := b.do("GET", webPath+"/files?path=/a/../b", "")
	if text := readAll(b.bench, r); text != "a tar of /b" || r.Header.Get("Content-Type") != tarball || r.Header.Get("Content-Disposition") != "attachment; filename=b.tar" {
		t.Errorf("a file is %q, %v", text, r.Header)
	}
	b.refused("a relative path", b.do("GET", webPath+"/files?path=b", ""), http.StatusBadRequest)
	if r := b.do("PUT", webPath+"/files?path=/b", "a tar", "Content-Type: "+tarball); r.StatusCode != http.StatusNoContent {
		t.Errorf("put answers %d", r.StatusCode)
	}
	for _, c := range [][3]string{{"GET", "/screen"}, {"POST", "/exec", `{"command":["cat"]}`}, {"GET", "/files?path=/b"}, {"PUT", "/files?path=/b", "a"}} {
		for _, role := range []string{"reader", "client", "publisher"} {
			b.refused(role+" "+c[1], b.do(c[0], webPath+c[1], c[2], "Authorization: Bearer dpt_"+role), http.StatusForbidden)
		}
	}
}

// TestWaitOverHTTP: the answer comes with the state that is waited for, or when the time is over.
func TestWaitOverHTTP(t *testing.T) {
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_a": {Actor: "token:a"}})
	state := make(chan schemas.State, 2)
	state <- schemas.Running
	state <- schemas.Exited
	looks := 0
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		if looks++; looks == 1 { // it changes after the first look, which is told again and again, as it may come too early
			go func() {
				for range 2 * newsKept {
					_ = b.nc.Publish(schemas.SubjectSession+".acme.web", nil)
					_ = b.nc.Flush()
				}
			}()
		}
		select {
		case s := <-state:
			return schemas.View{Name: a.Name, State: s}, nil
		default:
			return schemas.View{Name: a.Name, State: schemas.Exited}, nil
		}
	})
	if got := read[Session](b, b.do("GET", webPath+"/wait", "")); got.State != schemas.Exited {
		t.Errorf("it is %+v", got)
	}
	if p := b.refused("too short a time", b.do("GET", webPath+"/wait?state=suspended,failed&wait=1ms", ""), http.StatusGatewayTimeout); !strings.Contains(p.Detail, "suspended or failed") {
		t.Errorf("it says %+v", p)
	}
	b.refused("a state that there isn't", b.do("GET", webPath+"/wait?state=asleep", ""), http.StatusBadRequest)
}

// TestOutputIsBounded: of what a command prints the beginning is answered.
func TestOutputIsBounded(t *testing.T) {
	var b head
	for range 3 {
		if n, err := io.WriteString(&b, strings.Repeat("x", maxOutput/2)); n != maxOutput/2 || err != nil {
			t.Fatal(n, err)
		}
	}
	if data, err := json.Marshal(b.text()); len(data) != maxOutput+2 || err != nil || !b.cut {
		t.Errorf("%d bytes are kept, %t", len(data), b.cut)
	}
}
