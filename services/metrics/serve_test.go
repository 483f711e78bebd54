package metrics_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/diapause/diapause/services/metrics"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	h := metrics.NewHealth()
	s, err := metrics.Listen(ctx, "127.0.0.1:0", used(), h, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := metrics.Listen(ctx, strings.TrimPrefix(s.URL(), "http://"), used(), h, ""); err == nil {
		t.Error("two listen at one address")
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()

	if code, text := get(t, s.URL()+"/metrics"); code != 200 || !strings.Contains(text, `diapause_build_info{goversion="go`) {
		t.Errorf("/metrics: %d %s", code, text)
	}
	var alive metrics.Alive
	if code, text := get(t, s.URL()+"/healthz"); code != 200 || json.Unmarshal([]byte(text), &alive) != nil || alive.Status != "ok" || alive.Version != "1.2.3" {
		t.Errorf("/healthz: %d %s", code, text)
	}
	started := make(chan struct{})
	why := "the disk is full"
	h.ReadyOn("scheduler", started, "it is reading")
	h.Set("store", func(context.Context) string { return why })
	h.Set("mute", func(ctx context.Context) string { <-ctx.Done(); return "" })
	ready := func(wantCode int, wantParts ...metrics.Part) {
		t.Helper()
		code, text := get(t, s.URL()+"/readyz")
		var got metrics.Ready
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != wantCode || got.Ready != (code == 200) || len(got.Parts) != len(wantParts) {
			t.Fatalf("/readyz: %d %s (%v)", code, text, err)
		}
		for i, p := range wantParts {
			if got.Parts[i] != p {
				t.Errorf("/readyz: part %+v, want %+v", got.Parts[i], p)
			}
		}
	}
	h.Set("mute", func(context.Context) string { return "" })
	ready(503, metrics.Part{Name: "scheduler", Why: "it is reading"}, metrics.Part{Name: "store", Why: "the disk is full"}, metrics.Part{Name: "mute", Ready: true})
	close(started)
	why = ""
	ready(200, metrics.Part{Name: "scheduler", Ready: true}, metrics.Part{Name: "store", Ready: true}, metrics.Part{Name: "mute", Ready: true})
	if code, _ := get(t, s.URL()+"/"); code != 404 {
		t.Errorf("/: %d", code)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(s.URL() + "/healthz"); err == nil {
		t.Error("it answers after it was stopped")
	}
}

// A part that doesn't answer holds up nothing: it counts as not ready.
func TestMutePartIsNotReady(t *testing.T) {
	h := metrics.NewHealth()
	never := make(chan struct{})
	defer close(never)
	h.Set("mute", func(context.Context) string { <-never; return "" })
	h.Set("well", func(context.Context) string { return "" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as if its patience were over
	parts, ready := h.Look(ctx)
	if ready || parts[0].Ready || parts[0].Why == "" {
		t.Errorf("ready %t, %+v", ready, parts)
	}
}
