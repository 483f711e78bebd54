package gateway

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// takeIn takes in a recording, as a host does.
func (b *recordedBench) takeIn(conn net.Conn, hello attach.Hello) {
	in, err := attach.ReceiveImport(conn)
	if err != nil {
		b.Errorf("the host reads %v", err)
		return
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(in, first); err == nil && first[0] != '{' { // however much follows
		_ = attach.WriteError(conn, "import a recording: no asciicast")
		return
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return // the client went, and so does what came
	}
	b.imported.Store(int64(len(first) + len(data)))
	if in.Taken(schemas.Imported{Name: hello.Name, UID: "imported"}) == nil {
		_ = in.Kept()
	}
}

// operator is the header of one who may import.
const operator = "Authorization: Bearer dpt_operator"

// importers answers as an API with one host that takes recordings in.
func (b *recordedBench) importers() (ran func() asked) {
	b.answers("host_ls", func(asked) (any, *schemas.APIError) {
		takes := schemas.Host{Host: "h", Knows: []schemas.Feature{schemas.FeatureImport}, Fingerprints: []schemas.Fingerprint{{Driver: importedAs}}}
		return []schemas.HostView{{Host: schemas.Host{Host: "a"}, Alive: true}, {Host: takes, Alive: true}}, nil
	})
	return b.recorded("run", schemas.View{Name: "acme/old", State: schemas.Exited, Status: "archived"})
}

// TestImportOverHTTP: a recording of more than a request may else have makes a session, and reaches its host as it comes.
func TestImportOverHTTP(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	ran := b.importers()
	const path = prefix + "/sessions/acme.old/recording"
	cast := "{" + strings.Repeat("x", 4*maxBody)
	r := b.do("PUT", path+"?from=old.cast", cast, "Content-Type: "+castType, operator)
	if v := read[Session](b.bench, r); r.StatusCode != http.StatusCreated || v.Name != "acme/old" || r.Header.Get("Location") != prefix+"/sessions/acme.old" {
		t.Errorf("status %d, %+v at %s", r.StatusCode, v, r.Header.Get("Location"))
	}
	if a := ran(); a.Name != "acme/old" || a.Run.Host != "h" || a.Run.Import.UID != "imported" || a.Run.Import.From != "old.cast" || b.imported.Load() != int64(len(cast)) {
		t.Errorf("asked %+v; %d bytes came", a.Run, b.imported.Load())
	}
	for what, c := range map[string]struct {
		path, body string
		status     int
		header     string
	}{
		"no asciicast":       {path, "hello", 422, ""},
		"a name that is had": {webPath + "/recording", cast, 409, ""},
		"no name":            {prefix + "/sessions/-x/recording", cast, 400, ""},
		"another host":       {path + "?host=a", cast, 503, ""},
		"no body":            {path, "", 400, ""},
		"a parameter":        {path + "?x=1", cast, 400, ""},
		"an owner":           {path, cast, 403, "Authorization: Bearer dpt_a"},
		"no token":           {path, cast, 401, "Authorization: "},
	} {
		b.refused(what, b.do("PUT", c.path, c.body, "Content-Type: "+castType, cmp.Or(c.header, operator)), c.status)
	}
}

// TestImportThatEndsEarly: of a client that goes in the midst nothing is imported.
func TestImportThatEndsEarly(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	b.importers()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	b.must(err)
	_, err = io.WriteString(conn, "PUT "+prefix+"/sessions/acme.old/recording HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dpt_operator\r\nContent-Length: 1000\r\n\r\n{half")
	b.must(err)
	b.must(conn.(*net.TCPConn).CloseWrite())
	answer, _ := io.ReadAll(conn) // or nothing, of a connection that has ended
	conn.Close()
	if strings.Contains(string(answer), " 201 ") || b.imported.Load() > 0 {
		t.Errorf("it answers %s; %d bytes were imported", answer, b.imported.Load())
	}
}

// Who may not import, or imports what can't be, has an answer though the body doesn't come, and the connection ends.
func TestRefusedImportsArentRead(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	b.importers()
	const path = "PUT " + prefix + "/sessions/acme.old/recording HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
	var all sync.WaitGroup
	for what, c := range map[string]struct {
		head   string
		status int
	}{
		"an owner":     {path + "dpt_a\r\n", 403},
		"no asciicast": {path + "dpt_operator\r\n", 422},
	} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\nhello", "Content-Length: 1000000\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"} {
			all.Go(func() {
				status, rest, err := b.raw(c.head + body)
				if status != c.status || len(rest) != 0 || err != nil {
					t.Errorf("%s, %.40q: status %d, then %q, %v; want %d", what, body, status, rest, err, c.status)
				}
			})
		}
	}
	all.Wait()
}
