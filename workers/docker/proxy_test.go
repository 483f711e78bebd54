package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// otherEngine stands for an engine that answers otherwise in one point than the one that the
// tests have: answer may change the headers of each answer, and the body of those that are a
// JSON object.
func otherEngine(t *testing.T, e *dockertest.Engine, answer func(path string, h http.Header, body map[string]any)) *dockertest.Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "diapause-proxy-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(e.URL, "unix://"))
	}}
	proxy.Transport = transport
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error { return change(r, answer) }
	s := &http.Server{Handler: proxy}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // until it is closed
	t.Cleanup(func() {
		s.Close()
		<-done
		transport.CloseIdleConnections()
		os.RemoveAll(dir)
	})
	return &dockertest.Engine{URL: "unix://" + at, Dir: e.Dir, Client: e.Client}
}

func change(r *http.Response, answer func(string, http.Header, map[string]any)) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || strings.HasSuffix(r.Request.URL.Path, "/events") { // which has no end
		answer(r.Request.URL.Path, r.Header, nil)
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body.Close()
	var body map[string]any
	if json.Unmarshal(data, &body) == nil {
		answer(r.Request.URL.Path, r.Header, body)
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}
