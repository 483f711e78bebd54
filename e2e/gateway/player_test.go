package gateway

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// playerPage has the official player play /work.cast, and say what it shows after its end: it paints the last of it a moment later.
const playerPage = `<!DOCTYPE html><link rel="stylesheet" href="/player/asciinema-player.css"><div id="at"></div>
<script src="/player/asciinema-player.min.js"></script>
<script>
const at = document.getElementById("at");
const player = AsciinemaPlayer.create("/work.cast", at, { speed: 20 });
player.addEventListener("ended", () => setInterval(() => fetch("/shown", { method: "POST", body: at.innerText }), 200));
player.play();
</script>`

// TestPlayer has asciinema's player play an exported recording, in a real browser.
func TestPlayer(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // make test-long installs a browser
	}
	w := newWorld(t)
	_, err := w.Must("run", "--name", "work", "--tty", "--record", "output", "--", "sh", "-c",
		`printf '10%%\r100%%\n'; sleep 1; printf '\033[31mred\033[0m wide 漢字\n\033[?1049hsecond\033[?1049l'; echo the end`)
	w.must(err)
	_, err = w.Must("wait", "work")
	w.must(err)
	cast, err := w.Must("export", "work")
	w.must(err)

	said := make(chan string, 1)
	mux := http.NewServeMux()
	modules := filepath.Join(cmp.Or(os.Getenv("DIAPAUSE_PREFIX"), "/opt/diapause"), "node", "player", "node_modules")
	mux.Handle("GET /player/", http.StripPrefix("/player/", http.FileServer(http.Dir(filepath.Join(modules, "asciinema-player/dist/bundle")))))
	mux.HandleFunc("GET /work.cast", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, cast) })
	mux.HandleFunc("GET /", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, playerPage) })
	mux.HandleFunc("POST /shown", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // of a browser that was ended
		if strings.Contains(string(text), "the end") {
			select {
			case said <- string(text):
			default:
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	browser := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+filepath.Join(built.dir, "player"), server.URL)
	browser.WaitDelay = time.Second
	w.must(browser.Start())
	defer func() {
		cancel()
		_ = browser.Wait() // it was killed
	}()
	select {
	case text := <-said:
		for _, want := range []string{"100%", "red", "wide", "漢", "字"} {
			if !strings.Contains(text, want) {
				t.Errorf("the player shows %q, without %q", text, want)
			}
		}
		if strings.Contains(text, "second") {
			t.Errorf("the player shows %q", text)
		}
	case <-ctx.Done():
		t.Error("the player doesn't come to the end")
	}
}
