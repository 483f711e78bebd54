package gateway

import (
	"net"
	"net/http"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// TestDiffOverHTTP: two recordings, or two commands, are compared as the command line does.
func TestDiffOverHTTP(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	for query, want := range map[string]string{
		"?with=acme.awake":                          "", // the host answers the same of both
		"?command=3&with_command=4":                 "",
		"?command=3&with_command=7":                 "--- acme/web #3\n+++ acme/web #7\n@@ -1,2 +1 @@\n-red\n-last\n+other\n",
		"?command=3&with_command=7&with=acme.awake": "--- acme/web #3\n+++ acme/awake #7\n@@ -1,2 +1 @@\n-red\n-last\n+other\n",
	} {
		r := b.do("GET", webPath+"/diff"+query, "")
		if got := readAll(b.bench, r); got != want || r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != plainText {
			t.Errorf("%s: status %d, %q", query, r.StatusCode, got)
		}
	}
	for query, status := range map[string]int{
		"": 400, "?command=3": 400, "?with=acme.awake&command=3": 400, "?command=x&with_command=3": 400, "?command=0&with_command=3": 400, "?with=other.web": 403,
		"?command=99&with_command=3": 404, "?with=acme.lost": 503, "?with=acme.awake&x=1": 400,
	} {
		b.refused(query, b.do("GET", webPath+"/diff"+query, ""), status)
	}
	b.refused("a reader", b.do("GET", webPath+"/diff?with=acme.awake", "", "Authorization: Bearer dpt_reader"), http.StatusForbidden)
	b.large = comparedBytes/(20*400) + 100
	if p := b.refused("more than is compared", b.do("GET", webPath+"/diff?with=acme.awake", ""), http.StatusUnprocessableEntity); p.Reason != schemas.ReasonTooLarge || p.Hint == "" {
		t.Errorf("it says %+v", p)
	}
}

// kept answers a request for what a host keeps of an output.
func (b *recordedBench) kept(conn net.Conn, r attach.Request) {
	all := "one\ntwo\n"
	if r.Tail >= 0 {
		all = all[len(all)-int(r.Tail):]
	}
	_ = attach.WriteFrame(conn, attach.FrameStarted, nil)
	_ = attach.WriteFrame(conn, attach.FrameStdout, []byte(all))
	if r.Follow {
		<-b.printed
		_ = attach.WriteFrame(conn, attach.FrameStderr, []byte("more\n"))
		return // it is suspended
	}
	_ = attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{Code: 7})
}

// TestLogsOverHTTP: the end of an output comes also of what isn't recorded, and goes on if it is followed.
func TestLogsOverHTTP(t *testing.T) {
	t.Parallel()
	b := newRecordedBench(t)
	for query, want := range map[string]string{"": "one\ntwo\n", "?tail=4": "two\n", "?tail=0": "", "?follow=false": "one\ntwo\n"} {
		r := b.do("GET", webPath+"/logs"+query, "")
		if got := readAll(b.bench, r); got != want || r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != plainText {
			t.Errorf("%s: status %d, %q", query, r.StatusCode, got)
		}
	}
	r := b.do("GET", webPath+"/logs?follow=true&tail=4", "")
	begins := make([]byte, 4)
	if n, err := r.Body.Read(begins); err != nil || string(begins[:n]) != "two\n" {
		t.Fatalf("it begins with %q, %v", begins[:n], err)
	}
	close(b.printed) // only now is there more
	if got := readAll(b.bench, r); got != "more\n" {
		t.Errorf("it goes on with %q", got)
	}
	for query, status := range map[string]int{"?tail=x": 400, "?tail=-1": 400, "?follow=x": 400, "?since=1h": 400} {
		b.refused(query, b.do("GET", webPath+"/logs"+query, ""), status)
	}
	b.refused("a reader", b.do("GET", webPath+"/logs", "", "Authorization: Bearer dpt_reader"), http.StatusForbidden)
	b.refused("one of no host", b.do("GET", prefix+"/sessions/acme.queued/logs", ""), http.StatusConflict)
	for _, query := range []string{"", "?follow=true"} {
		b.refused("one whose host is away"+query, b.do("GET", prefix+"/sessions/acme.lost/logs"+query, ""), http.StatusServiceUnavailable)
	}
}
