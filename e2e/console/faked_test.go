package console

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"github.com/diapause/diapause/services/gateway/console"
)

// TestFakedAPI drives a browser by testdata/faked.mjs, which answers for the API itself: the pages are tried with days of
// use and answers that no installation gives in a moment.
func TestFakedAPI(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; `make setup-test` installs it", err)
	}
	mux := http.NewServeMux()
	if err := console.Register(mux); err != nil {
		t.Fatal(err)
	}
	// A stream of events in which nothing happens.
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: hello\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer server.CloseClientConnections()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/faked.mjs", modules(t), server.URL, chromium)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
