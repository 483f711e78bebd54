package forward

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/diapause/diapause/e2e/stack"
)

// asServer is the variable that has this program be the server in a session.
const asServer = "DIAPAUSE_TEST_SERVER"

// The ports of the server: one talks HTTP, one answers a text when its end was read, and nothing
// listens at the last.
const (
	portHTTP  = "8080"
	portUpper = "8081"
	portNone  = "8082"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		fmt.Fprintln(os.Stderr, serve())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve is the server. What it counts shows that its memory is the same after a resume.
func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:"+portUpper)
	if err != nil {
		return err
	}
	go upper(l)
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/count", func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, asked)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, large()) })
	mux.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, digest(r.Body)) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "first")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	return http.ListenAndServe("127.0.0.1:"+portHTTP, mux)
}

func upper(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if text, err := io.ReadAll(c); err == nil {
				_, _ = c.Write(bytes.ToUpper(text))
			}
		}()
	}
}

// large is 100 MB that no compression makes small.
func large() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), 100e6) }

func digest(r io.Reader) string {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err.Error()
	}
	return hex.EncodeToString(h.Sum(nil))
}

// begin starts the server in a session.
func begin(t *testing.T, s *stack.Stack, name string, flags ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--name", name, "--env", asServer + "=1"}, flags...)
	if out, err := s.Must(append(args, "--", self)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := s.Must("exec", name, "--", "sh", "-c", "until grep -q ':1F90 ' /proc/net/tcp; do sleep 0.05; done"); err != nil {
		t.Fatalf("the server doesn't listen: %v: %s", err, out)
	}
}
