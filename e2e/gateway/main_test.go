package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

// built is the program, which all tests share.
var built struct {
	once    sync.Once
	dir     string
	program string
	err     error
}

// asServer is the variable that has this program be the server in a session.
const asServer = "DIAPAUSE_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
		fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:8080", hello))
		os.Exit(1)
	}
	if what := os.Getenv(asSlow); what != "" {
		if err := beSlow(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// world is a `diapause up` and what is needed to ask it over HTTP.
type world struct {
	*testing.T
	*stack.Stack
	address string
	doc     *openapi3.T
}

// newWorld starts one, which ends with the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = stack.Dir(); built.err == nil {
			built.program, built.err = stack.Build(built.dir)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	dir, err := os.MkdirTemp(built.dir, "world")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Stack: stack.New(built.program, dir+"/data"), address: freeAddress(t)}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("%v\n%s", err, w.Stack.Log())
		}
	})
	w.up()
	var text bytes.Buffer
	r := w.send(w.address, "GET", "/api/v1/openapi.json", "", "")
	_, err = io.Copy(&text, r.Body)
	w.must(err)
	w.doc, err = openapi3.NewLoader().LoadFromData(text.Bytes())
	w.must(err)
	return w
}

// freeAddress is one that is free, and the same after a restart. Its port isn't one that the kernel gives to
// connections, of which one could have it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return address
	}
}

// up starts it, with its gateway.
func (w *world) up() {
	w.Helper()
	w.must(w.Up("--http", w.address))
	w.answers("HTTP API: http://" + w.address + "/api/v1")
}

// answers waits for a line in what the daemon prints.
func (w *world) answers(line string) {
	w.Helper()
	said := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(line))
	for end := time.Now().Add(limit); !said.MatchString(w.Stack.Log()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("it never says %q:\n%s", line, w.Stack.Log())
		}
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// token makes one at the command line.
func (w *world) token(args ...string) string {
	w.Helper()
	out, err := w.Must(append([]string{"token", "create"}, args...)...)
	w.must(err)
	token := strings.TrimSpace(out)
	if !strings.HasPrefix(token, schemas.TokenPrefix) {
		w.Fatalf("the token is %q", token)
	}
	return token
}

// send sends a request to a gateway as the bearer of a token, and validates an answer in JSON against the document.
func (w *world) send(address, method, path, token, body string, headers ...string) *http.Response {
	w.Helper()
	r := w.do(address, method, path, token, body, headers...)
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	template := w.template(r.Request)
	if template == "" || media != "application/json" && media != "application/problem+json" {
		return r
	}
	data, err := io.ReadAll(r.Body)
	w.must(err)
	r.Body = io.NopCloser(bytes.NewReader(data))
	if err := w.validate(r, template, "", data); err != nil {
		w.Errorf("%s %s: the answer isn't as the document says: %v\n%s", method, path, err, data)
	}
	return r
}

// template is the path of the document that a request is for: the one with the fewest parameters; "" if there is none.
func (w *world) template(r *http.Request) (best string) {
	if w.doc == nil {
		return ""
	}
	for path, item := range w.doc.Paths.Map() {
		if item.GetOperation(r.Method) == nil || !asPattern(path).MatchString(r.URL.EscapedPath()) {
			continue
		}
		if best == "" || strings.Count(path, "{") < strings.Count(best, "{") {
			best = path
		}
	}
	return best
}

// asPattern matches what a path of the document stands for.
func asPattern(path string) *regexp.Regexp {
	parts := inPath.Split(path, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, "[^/]+") + "$")
}

// do sends a request to a gateway as the bearer of a token.
func (w *world) do(address, method, path, token, body string, headers ...string) *http.Response {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	w.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
	w.must(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	w.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// asks are what the tests ask, one after another.
type asks struct {
	*world
	address string
	token   string
}

// call sends a request and validates the answer against the document. In path "{name}" stands for a parameter,
// whose value follows it after "=": "/sessions/{session=acme.web}".
func (a asks) call(method, path string, status int, body any, out any, headers ...string) http.Header {
	a.Helper()
	template, query, _ := strings.Cut(parameter.ReplaceAllString(path, "{$1}"), "?")
	target := parameter.ReplaceAllString(path, "$2")
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		a.must(err)
	}
	r := a.do(a.address, method, target, a.token, string(text), headers...)
	data, err := io.ReadAll(r.Body)
	a.must(err)
	what := fmt.Sprintf("%s %s", method, target)
	if r.StatusCode != status {
		a.Fatalf("%s: status %d, want %d: %s", what, r.StatusCode, status, data)
	}
	if err := a.validate(r, template, query, data); err != nil {
		a.Errorf("%s: the answer isn't as the document says: %v\n%s", what, err, data)
	}
	if out != nil {
		reflect.ValueOf(out).Elem().SetZero() // what the answer leaves out isn't there
		if err := json.Unmarshal(data, out); err != nil {
			a.Fatalf("%s: %v in %s", what, err, data)
		}
	}
	return r.Header
}

var parameter = regexp.MustCompile(`\{(\w+)=([^}]*)\}`)

// validate compares an answer with the document.
func (w *world) validate(r *http.Response, template, query string, data []byte) error {
	item := w.doc.Paths.Value(template)
	if item == nil || item.GetOperation(r.Request.Method) == nil {
		return fmt.Errorf("the document has no %s %s (%s)", r.Request.Method, template, query)
	}
	route := &routers.Route{Spec: w.doc, Path: template, PathItem: item, Method: r.Request.Method, Operation: item.GetOperation(r.Request.Method)}
	return openapi3filter.ValidateResponse(w.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r.Request, Route: route},
		Status:                 r.StatusCode, Header: r.Header, Body: io.NopCloser(bytes.NewReader(data)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

// object is a JSON object.
type object = map[string]any

// problem is an error as HTTP has it.
type problem struct {
	Code, Detail, Hint string
	Reason             schemas.Reason
}
