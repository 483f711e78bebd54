package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/export"
)

// recordedBench is a gateway before a host that has a recording.
type recordedBench struct {
	*bench
	dials atomic.Int32
	large int // so many lines of output
	cut   bool

	imported atomic.Int64  // bytes of a recording that was taken in
	printed  chan struct{} // closed when there is more of an output that is followed
}

func newRecordedBench(t *testing.T) *recordedBench {
	t.Helper()
	b := &recordedBench{bench: newBench(t, nil), printed: make(chan struct{})}
	b.isOf(map[string]schemas.WhoAmI{
		"dpt_a": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}, "dpt_reader": {Actor: "token:b", Role: schemas.TokenReader, Tenant: "acme"},
		"dpt_client": {Actor: "token:c", Role: schemas.TokenClient, Tenant: "acme"}, "dpt_publisher": {Actor: "token:d", Role: schemas.TokenPublisher, Tenant: "acme"},
		"dpt_operator": {Actor: "token:e", Role: schemas.TokenOperator},
	})
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		if a.token != "dpt_a" && a.token != "dpt_operator" {
			t.Errorf("the API is asked for a session by %s", a.token)
		}
		switch a.Name {
		case "acme/web":
			return schemas.View{Name: a.Name, UID: "u", TTY: true, State: schemas.Suspended, Host: "h"}, nil
		case "acme/awake":
			return schemas.View{Name: a.Name, UID: "u", State: schemas.Running, Host: "h"}, nil
		case "acme/queued":
			return schemas.View{Name: a.Name, UID: "u", TTY: true, State: schemas.Starting}, nil
		case "acme/old":
			return nil, &schemas.APIError{Code: schemas.CodeNoSession, Text: "no session acme/old"}
		case "acme/lost":
			return schemas.View{Name: a.Name, UID: "u", TTY: true, State: schemas.Suspended, Host: "gone"}, nil
		}
		return nil, schemas.FailedError(schemas.ReasonDenied, "not yours")
	})
	l, err := tunnel.Listen(b.nc, schemas.SubjectHost+".h.dial")
	b.must(err)
	t.Cleanup(func() { l.Close() })
	b.must(b.nc.Flush())
	go func() {
		for {
			conn, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			b.dials.Add(1)
			go func() {
				defer conn.Close()
				var hello attach.Hello
				if json.Unmarshal(conn.Hello(), &hello) == nil && hello.Import {
					b.takeIn(conn, hello)
					return
				}
				if hello.UID != "u" || hello.Presence || hello.Input {
					t.Errorf("the hello is %s", conn.Hello())
				}
				b.host(conn)
			}()
		}
	}()
	return b
}

// host answers one request.
func (b *recordedBench) host(conn net.Conn) {
	r, err := attach.ReadRequest(conn)
	if err == nil && r.Op == attach.OpPicture {
		b.Log(attach.SendPicture(conn, []byte("a picture")))
		return
	}
	if err == nil && r.Op == attach.OpOutput && r.History == nil {
		b.kept(conn, r)
		return
	}
	if err == nil && r.Op != attach.OpOutput {
		b.inside(conn, r)
		return
	}
	if err != nil || r.History == nil {
		b.Errorf("the request is %+v, %v", r, err)
		return
	}
	say := func(err error) { // a client that has enough goes
		if err != nil && b.large == 0 {
			b.Log(err)
		}
	}
	note := func(text string) { say(attach.WriteFrame(conn, attach.FrameStderr, []byte("diapause: "+text+"\n"))) }
	switch h := *r.History; {
	case h.Commands != 0:
		say(attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true}))
		for n := int64(5); n > 0; n-- {
			status := int(n % 2)
			line, _ := json.Marshal(schemas.TypedCommand{Number: n, Text: fmt.Sprintf("c%d", n), Exit: &status})
			say(attach.WriteFrame(conn, attach.FrameStdout, append(line, '\n')))
		}
		note("2 commands were not kept")
	case h.Command == 99:
		say(attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true, None: true}))
		say(attach.WriteError(conn, "session acme/web has no command 99"))
		return
	case h.Command != 0:
		say(attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true, Command: &schemas.TypedCommand{Number: h.Command}}))
		note("the rest of\nthe \x1b[31moutput")
		say(attach.WriteFrame(conn, attach.FrameStdout, []byte(map[bool]string{true: "other\r\n", false: "\x1b[31mred\x1b[0m\r\nlast"}[h.Command == 7])))
	default:
		say(attach.WriteFrame(conn, attach.FrameStarted, nil))
		if h.Framed && h.After == 90*time.Second && !b.cut {
			line, _ := json.Marshal(attach.Event{Code: attach.CodeFrom, Time: time.Unix(90, 0)})
			say(attach.WriteFrame(conn, attach.FrameStdout, append(line, '\n')))
		}
		if !h.Events || !h.Since.IsZero() {
			say(attach.WriteError(conn, "nothing was recorded of session acme/web"))
			return
		}
		b.events(conn)
		if b.cut {
			return
		}
	}
	say(attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{}))
}

// events sends a recording.
func (b *recordedBench) events(conn net.Conn) {
	at := int64(0)
	for _, e := range []attach.Event{{Code: "r", Text: "80x24"}, {Code: "o", Text: "<b>one\r\n"}} {
		line, _ := json.Marshal(e)
		_ = attach.WriteFrame(conn, attach.FrameStdout, append(line, '\n'))
		at += int64(len(e.Text))
	}
	text := strings.Repeat("a line that is long ", 400) + "\r\n"
	for range b.large {
		line, _ := json.Marshal(attach.Event{Code: "o", Text: text, At: at})
		if attach.WriteFrame(conn, attach.FrameStdout, append(line, '\n')) != nil {
			return
		}
		at += int64(len(text))
	}
}

const webPath = prefix + "/sessions/acme.web"

// TestCommandsOverHTTP: commands come in pages, the last one first.
func TestCommandsOverHTTP(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	for query, want := range map[string]string{
		"":                  "5 4 3 2 1 next 0",
		"?limit=2":          "5 4 next 4",
		"?limit=2&before=4": "3 2 next 2", "?before=2": "1 next 0", "?before=1": "next 0", "?limit=5": "5 4 3 2 1 next 0",
		"?exit=nonzero": "5 3 1 next 0", "?exit=0": "4 2 next 0", "?exit=7": "next 0", "?exit=nonzero&limit=1&before=5": "3 next 3",
	} {
		r := b.do("GET", webPath+"/commands"+query, "")
		all := read[Commands](b.bench, r)
		got := ""
		for _, c := range all.Commands {
			got += fmt.Sprint(c.Number, " ")
		}
		if got += fmt.Sprint("next ", all.Next); got != want || r.StatusCode != http.StatusOK || all.Commands == nil {
			t.Errorf("%q is %q, status %d; want %q", query, got, r.StatusCode, want)
		}
		if all.Next == 0 && (len(all.Missing) != 1 || all.Missing[0] != "2 commands were not kept") {
			t.Errorf("%q: missing is %q", query, all.Missing)
		}
	}
}

// TestOutputOverHTTP: the output of a command comes as text, or as it was printed.
func TestOutputOverHTTP(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	r := b.do("GET", webPath+"/commands/3/output", "")
	if text := readAll(b.bench, r); text != "red\nlast\n" || r.Header.Get("Content-Type") != plainText {
		t.Errorf("it is %q, %v", text, r.Header)
	}
	if w := r.Header.Get("Warning"); !strings.HasPrefix(w, `299 - "the rest of`) || strings.ContainsAny(w, "\n\x1b") {
		t.Errorf("the warning is %q", w)
	}
	r = b.do("GET", webPath+"/commands/3/output?raw=true", "")
	if text := readAll(b.bench, r); text != "\x1b[31mred\x1b[0m\r\nlast" || r.Header.Get("Content-Type") != rawOutput || !strings.HasPrefix(r.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("raw it is %q, %v", text, r.Header)
	}
	if p := b.refused("one that isn't", b.do("GET", webPath+"/commands/99/output", ""), http.StatusNotFound); !strings.Contains(p.Detail, "no command 99") {
		t.Errorf("it says %+v", p)
	}
}

// TestRecordingOverHTTP: a recording comes in each form.
func TestRecordingOverHTTP(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	for form, want := range map[string]string{
		"": `{"version":3,"term":{"cols":80,"rows":24}`, "?format=asciicast": `"o","<b>one\r\n"]`, "?format=text": "<b>one\n", "?format=html": "&lt;b&gt;one", "?format=jsonl": `"code":"o"`,
	} {
		r := b.do("GET", webPath+"/recording"+form, "")
		_, name, _ := strings.Cut(form, "=")
		if text := readAll(b.bench, r); !strings.Contains(text, want) || r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != export.MediaType(name) && form != "" {
			t.Errorf("%q is %q, %v", form, text, r.Header)
		}
		if !strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment; filename=acme.web.") {
			t.Errorf("%q: %v", form, r.Header)
		}
	}
	b.refused("nothing recorded", b.do("GET", webPath+"/recording?since=1h", ""), http.StatusConflict)
}

// TestRecordingFromAMoment: a recording begins at a moment, if its host knows of that.
func TestRecordingFromAMoment(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	r := b.do("GET", webPath+"/recording?format=jsonl&from=90s", "")
	if text := readAll(b.bench, r); !strings.HasPrefix(text, `{"time":"`) || !strings.Contains(text, `"code":"from"`) || !strings.Contains(text, `"code":"o"`) {
		t.Errorf("it is %q", text)
	}
	for query, says := range map[string]string{"from=soon": "want a time", "from=-3s": "want a time", "from=90s&since=1h": "one of them", "from=80s": "doesn't know from"} {
		r := b.do("GET", webPath+"/recording?format=jsonl&"+query, "")
		if text := readAll(b.bench, r); r.StatusCode == http.StatusOK || !strings.Contains(text, says) {
			t.Errorf("%s: status %d, %s", query, r.StatusCode, text)
		}
	}
}

// TestPictureOverHTTP: what a desktop showed last comes as a picture that no page of another origin shows.
func TestPictureOverHTTP(t *testing.T) {
	b := newRecordedBench(t)
	r := b.do("GET", webPath+"/desktop/picture", "")
	body, err := io.ReadAll(r.Body)
	if h := r.Header; err != nil || string(body) != "a picture" || h.Get("Content-Type") != "image/jpeg" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("it answers %v: %q, %v", h, body, err)
	}
}

// TestRecordedIsRefused: what a terminal showed is a right of its own, which is looked at before anything else.
func TestRecordedIsRefused(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	for _, path := range []string{"/commands", "/commands/1/output", "/commands/x/output", "/recording", "/recording?format=xml", "/desktop/picture"} {
		for token, status := range map[string]int{"": 401, "dpt_none": 401, "dpt_reader": 403, "dpt_client": 403, "dpt_publisher": 403} {
			b.refused(token+" asks for "+path, b.do("GET", webPath+path, "", strings.TrimSuffix("Authorization: Bearer "+token, "Bearer ")), status)
		}
	}
	for path, status := range map[string]int{
		"acme.web/commands/x/output": 400, "acme.web/commands/0/output": 400, "acme.web/commands/1/output?raw=maybe": 400, "acme.web/commands/1/output?x=1": 400,
		"acme.web/recording?format=xml": 400, "acme.web/recording?since=-1h": 400, "acme.web/recording?token=dpt_a": 400,
		"acme.web/commands?limit=0": 400, "acme.web/commands?limit=1001": 400, "acme.web/commands?exit=x": 400, "acme.web/commands?y=1": 400,
		"acme.web/desktop/picture?x=1": 400, "acme.awake/desktop/picture": 409, "other.web/desktop/picture": 403, "acme.lost/desktop/picture": 503,
		"acme.queued/commands": 409, "acme.queued/recording": 409, "other.web/recording": 403, "other.web/commands": 403, "acme.lost/recording": 503, "acme.lost/commands": 503,
	} {
		b.refused(path, b.do("GET", prefix+"/sessions/"+path, ""), status)
	}
	if n := b.dials.Load(); n > 0 {
		t.Errorf("the host was asked %d times", n)
	}
}

// TestLargeRecording: a recording is passed on as it comes, and one that breaks off isn't taken for a whole one.
func TestLargeRecording(t *testing.T) {
	b := newRecordedBench(t)
	b.large = 3_000         // of 8 kB each
	held := func() uint64 { // without what other tests have left
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	r := b.do("GET", webPath+"/recording", "")
	var most uint64
	buffer, n := make([]byte, 1<<20), 0
	for {
		k, err := r.Body.Read(buffer)
		n += k
		if n%(8<<20) < k {
			most = max(most, held())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		b.must(err)
	}
	if n < 22<<20 || most > before+16<<20 {
		t.Errorf("%d MB came, and took %d MB of memory", n>>20, (most-before)>>20)
	}
	b.large, b.cut = 100, true
	r = b.do("GET", webPath+"/recording", "")
	if data, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("it ends well: status %d, %d bytes, %q", r.StatusCode, len(data), bytes.TrimSpace(data[max(len(data)-100, 0):]))
	}
}
