package s3_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/retry"
	"github.com/diapause/diapause/objectstore/s3"
	"github.com/diapause/diapause/objectstore/storetest"
	"github.com/diapause/diapause/objectstore/storetest/server"
)

func start(t *testing.T, k server.Kind) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), k, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func open(t *testing.T, url string) *s3.Store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	o, err := s3.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, k := range server.Kinds {
		t.Run(string(k), func(t *testing.T) {
			s := open(t, start(t, k).URL("some/prefix"))
			if !s.Conditional() {
				t.Fatalf("%s lets writers overwrite one another", k)
			}
			// As it is used: versitygw now and then refuses a put beside a delete.
			storetest.Run(t, func(*testing.T) objectstore.Store { return retry.Wrap(s, retry.Options{}) })
			wantEmpty(t, s)
		})
	}
}

// wantEmpty: the suite and the probe leave nothing of theirs but what they put.
func wantEmpty(t *testing.T, s *s3.Store) {
	t.Helper()
	err := s.List(t.Context(), "", func(i objectstore.Info) error {
		if !strings.HasPrefix(i.Name, "storetest-") {
			t.Errorf("%s is left", i.Name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func raw(t *testing.T, srv *server.Server, access, secret string) *minio.Client {
	t.Helper()
	c, err := minio.New(srv.Address(), &minio.Options{Creds: credentials.NewStaticV4(access, secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// In a bucket that keeps versions, what is deleted is gone with all of them.
func TestDeleteTakesAllVersions(t *testing.T) {
	srv := start(t, server.MinIO)
	c := raw(t, srv, server.AccessKey, server.SecretKey)
	if err := c.EnableVersioning(t.Context(), server.Bucket); err != nil {
		t.Fatal(err)
	}
	s := open(t, srv.URL("p"))
	for _, name := range []string{"keys/a", "keys/ab"} {
		if err := s.Put(t.Context(), name, strings.NewReader("secret"), 6); err != nil {
			t.Fatal(err)
		}
	}
	// Another client deletes and writes it, which leaves versions and a mark.
	if err := c.RemoveObject(t.Context(), server.Bucket, "p/keys/a", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "keys/a", strings.NewReader("second"), 6); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "keys/a"); err != nil {
		t.Fatal(err)
	}
	var left []string
	for o := range c.ListObjects(t.Context(), server.Bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		left = append(left, o.Key)
	}
	if !slices.Equal(left, []string{"p/keys/ab"}) {
		t.Errorf("left in the bucket, versions included: %v; want p/keys/ab alone", left)
	}
}

func TestDenied(t *testing.T) {
	srv := start(t, server.MinIO)
	s := open(t, srv.URL(""))
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not the secret")
	o, err := s3.Parse(srv.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s3.Open(t.Context(), o); !errors.Is(err, objectstore.ErrDenied) || !strings.Contains(err.Error(), "check the access key") {
		t.Errorf("open with a wrong secret: %v, want ErrDenied and what to do", err)
	}
	if err := s.Put(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Errorf("the other client: %v", err)
	}
}

func TestNoBucket(t *testing.T) {
	srv := start(t, server.Versitygw)
	open(t, srv.URL(""))
	o, err := s3.Parse(strings.Replace(srv.URL(""), server.Bucket, "nowhere", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s3.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), `no bucket "nowhere"`) {
		t.Errorf("open a bucket that isn't there: %v", err)
	}
}

func TestServerIsAway(t *testing.T) {
	srv := start(t, server.MinIO)
	s := open(t, srv.URL(""))
	srv.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.Put(ctx, "a", strings.NewReader("x"), 1)
	if err == nil || errors.Is(err, objectstore.ErrDenied) || errors.Is(err, objectstore.ErrFull) {
		t.Errorf("put to a server that is away: %v", err)
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Errorf("put after it came back: %v", err)
	}
}

// A server whose certificate only its own authority vouches for.
func TestOwnCertificate(t *testing.T) {
	srv := start(t, server.MinIO)
	to := &url.URL{Scheme: "http", Host: srv.Address()}
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host }})
	t.Cleanup(front.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "s3://" + server.Bucket + "/p?region=us-east-1&endpoint=" + front.URL
	s := open(t, address+"&ca="+ca)
	data := bytes.Repeat([]byte("content "), 1<<20)
	if err := s.Put(t.Context(), "a", bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes back, error %v", len(got), err)
	}
	o, err := s3.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s3.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the authority: %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]s3.Options{
		"s3://b":                                             {Bucket: "b", Endpoint: "s3.amazonaws.com"},
		"s3://b/p/q/":                                        {Bucket: "b", Prefix: "p/q", Endpoint: "s3.amazonaws.com"},
		"s3://b?region=eu-west-1&profile=x":                  {Bucket: "b", Endpoint: "s3.amazonaws.com", Region: "eu-west-1", Profile: "x"},
		"s3://b?endpoint=http://h:9000":                      {Bucket: "b", Endpoint: "h:9000", Insecure: true, PathStyle: true},
		"s3://b?endpoint=https://h&path-style=false":         {Bucket: "b", Endpoint: "h"},
		"s3://b?endpoint=https://s3.eu-west-1.amazonaws.com": {Bucket: "b", Endpoint: "s3.eu-west-1.amazonaws.com"},
	} {
		if got, err := s3.Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, say := range map[string]string{
		"":                                    "scheme",
		"http://b":                            "scheme",
		"s3://":                               "no bucket",
		"s3://key:secret@b":                   "credentials",
		"s3://b?secret_key=secret":            "unknown parameter",
		"s3://b?endpoint=http://k:secret@h":   "credentials",
		"s3://b?endpoint=http://h%3Fk=secret": "endpoint",
		"s3://b/../x":                         "prefix",
		"s3://b?endpoint=h:9000":              "endpoint",
		"s3://b?endpoint=http://h/x":          "endpoint",
		"s3://b?path-style=perhaps":           "path-style",
		"s3://b?ca=/nowhere/ca.pem":           "ca",
		"s3://b?endpont=http://h":             "endpont",
	} {
		_, err := s3.Parse(text)
		if err == nil || !strings.Contains(err.Error(), say) || strings.Contains(strings.ReplaceAll(err.Error(), "secret_key", ""), "secret") {
			t.Errorf("%s: error %v, want one about %s", text, err, say)
		}
	}
}

// MinIO denies access to an object in a directory that it removes at that moment: it is put again. What
// stays denied is denied.
func TestDeniedForAMoment(t *testing.T) {
	srv := start(t, server.MinIO)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", srv.Address() }}
	var denials, puts atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/p/a") {
			proxy.ServeHTTP(w, r)
			return
		}
		if puts.Add(1); denials.Add(-1) < 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
	}))
	t.Cleanup(front.Close)
	s := open(t, "s3://"+server.Bucket+"/p?region=us-east-1&endpoint="+front.URL)
	denials.Store(100)
	if err := s.Put(t.Context(), "a", strings.NewReader("here"), 4); !errors.Is(err, objectstore.ErrDenied) || puts.Load() != 3 {
		t.Errorf("denied for good, after %d tries: %v", puts.Load(), err)
	}
	denials.Store(1)
	if err := s.Put(t.Context(), "a", io.MultiReader(strings.NewReader("here")), 4); !errors.Is(err, objectstore.ErrDenied) {
		t.Errorf("of a reader that can't begin again: %v", err)
	}
	denials.Store(2)
	began := strings.NewReader("not here")
	if _, err := began.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a", began, 4); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "here" {
		t.Errorf("it has %q, %v", got, err)
	}
}
