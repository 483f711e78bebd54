package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// firstPaint is what the first page may take, compressed, in bytes; it is what a browser loads before anything is shown.
const firstPaint = 200 << 10

func serve(t *testing.T) *http.ServeMux {
	t.Helper()
	mux := http.NewServeMux()
	if err := Register(mux); err != nil {
		t.Fatal(err)
	}
	return mux
}

// get asks for a path; headers are "Name: value".
func get(t *testing.T, h http.Handler, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) []byte {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestHeaders(t *testing.T) {
	mux := serve(t)
	for path, contentType := range map[string]string{
		"/": "text/html; charset=utf-8", "/shared": "text/html; charset=utf-8", "/console/main.js": "text/javascript; charset=utf-8", "/console/console.css": "text/css; charset=utf-8",
		"/console/vendor/xterm.mjs": "text/javascript; charset=utf-8", "/console/icon.svg": "image/svg+xml",
	} {
		r := get(t, mux, "GET", path)
		h := r.Header
		if r.StatusCode != http.StatusOK || h.Get("Content-Type") != contentType || h.Get("Content-Security-Policy") != policy || h.Get("Cache-Control") != "no-cache" || h.Get("ETag") == "" || h.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d, %v", path, r.StatusCode, h)
		}
		if head := get(t, mux, "HEAD", path); head.StatusCode != http.StatusOK || len(body(t, head)) > 0 {
			t.Errorf("HEAD %s: %d", path, head.StatusCode)
		}
	}
	for _, path := range []string{"/console/", "/console/index.html", "/console/shared.html", "/shared/", "/console/vendor/LICENSE.xterm", "/console/none.js", "/index.html", "/other"} {
		if r := get(t, mux, "GET", path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if strings.Contains(policy, "unsafe") || regexp.MustCompile(`https?:|\*`).MatchString(policy) || !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the policy is %s", policy)
	}
}

// A browser that has a file gets it again only when it has changed, compressed or not.
func TestCaching(t *testing.T) {
	mux := serve(t)
	seen := map[string]bool{}
	for _, encoding := range []string{"", "gzip", "br, gzip;q=0.5", "gzip;q=0", "GZIP"} {
		r := get(t, mux, "GET", "/console/main.js", "Accept-Encoding: "+encoding)
		zipped := encoding != "" && encoding != "gzip;q=0"
		if (r.Header.Get("Content-Encoding") == "gzip") != zipped || !strings.Contains(strings.Join(r.Header.Values("Vary"), ","), "Accept-Encoding") {
			t.Errorf("%q: %v", encoding, r.Header)
		}
		text := body(t, r)
		if zipped {
			text = unzip(t, text)
		}
		if want, err := os.ReadFile("files/main.js"); err != nil || !bytes.Equal(text, want) {
			t.Errorf("%q: the file is another: %v", encoding, err)
		}
		tag := r.Header.Get("ETag")
		seen[tag] = true
		if again := get(t, mux, "GET", "/console/main.js", "Accept-Encoding: "+encoding, "If-None-Match: "+tag); again.StatusCode != http.StatusNotModified || len(body(t, again)) > 0 {
			t.Errorf("%q: again: %d", encoding, again.StatusCode)
		}
		if other := get(t, mux, "GET", "/console/main.js", `If-None-Match: "older"`); other.StatusCode != http.StatusOK {
			t.Errorf("%q: after a change: %d", encoding, other.StatusCode)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the tags of a file, plain and compressed, are %v", seen)
	}
}

func unzip(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var (
	loads = regexp.MustCompile(`(?:from|href=|src=) ?"([^"]+)"`)
	// lazily are what a page takes when a person goes there.
	imports = regexp.MustCompile(`import\("([^"]+)"\)`)
)

// resolve gives the path of a file that another one names; "" if it isn't a file of the console.
func resolve(from, name string) string {
	if strings.HasPrefix(name, "./") {
		name = path.Join(path.Dir(from), name)
	}
	if !strings.HasPrefix(name, Below) {
		return ""
	}
	return name
}

// What is loaded before the first page is shown is small, and so is all of it; what each file names is there.
func TestFirstPaintIsSmall(t *testing.T) {
	mux := serve(t)
	sizes := map[string]int{}
	var load func(path string, later bool)
	load = func(path string, later bool) {
		if _, ok := sizes[path]; ok {
			return
		}
		r := get(t, mux, "GET", path, "Accept-Encoding: gzip")
		data := body(t, r)
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", path, r.StatusCode)
		}
		sizes[path] = len(data)
		from := path
		if path == Root || path == Shared {
			from = Below
		}
		text := string(unzip(t, data))
		if strings.HasPrefix(path, Below+"vendor/") {
			return
		}
		for _, m := range loads.FindAllStringSubmatch(text, -1) {
			if to := resolve(from, m[1]); to != "" {
				load(to, later)
			}
		}
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			if later {
				load(resolve(from, m[1]), later)
			}
		}
	}
	total := func() (n int) {
		for _, size := range sizes {
			n += size
		}
		return n
	}
	load(Root, false)
	if n := total(); n > firstPaint || n < 1000 || len(sizes) < 6 {
		t.Errorf("the first page takes %d bytes: %v", n, sizes)
	} else {
		t.Logf("the first page takes %d bytes compressed, in %d files", n, len(sizes))
	}
	clear(sizes)
	load(Root, true)
	if n := total(); n > firstPaint || sizes[Below+"vendor/xterm.mjs"] == 0 {
		t.Errorf("the console with a terminal takes %d bytes: %v", n, sizes)
	}
	clear(sizes)
	load(Shared, true)
	if n := total(); n > firstPaint || sizes[Below+"vendor/xterm.mjs"] == 0 {
		t.Errorf("the page of a share takes %d bytes: %v", n, sizes)
	}
	for _, path := range []string{Below + "api.js", Below + "main.js", Below + "terminal.js"} {
		if sizes[path] != 0 {
			t.Errorf("the page of a share loads %s, which uses the login of the browser", path)
		}
	}
}

// ours calls fn with each file that isn't a vendor's.
func ours(t *testing.T, fn func(name, text string)) {
	t.Helper()
	n := 0
	err := fs.WalkDir(files, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "files/vendor/") {
			return err
		}
		data, err := files.ReadFile(name)
		fn(name, string(data))
		n++
		return err
	})
	if err != nil || n < 10 {
		t.Fatalf("%d files: %v", n, err)
	}
}

// No file loads anything from elsewhere; the name of SVG's namespace is no address.
func TestNothingFromElsewhere(t *testing.T) {
	ours(t, func(name, text string) {
		text = strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")
		if found := regexp.MustCompile(`(https?|wss?)://|["'(]//[a-z]|@import`).FindString(text); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	})
}

// What comes from sessions is never markup or code, and no file has styles or scripts that the policy refuses.
func TestTextsAreTexts(t *testing.T) {
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|srcdoc|setHTML|javascript:| style="| on[a-z]+="|<style|<script>`)
	ours(t, func(name, text string) {
		if found := markup.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
	})
}

var vendored = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| `([0-9a-f]{64})` \\|$")

// The table names each file of others, with its checksum.
func TestVendored(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, m := range vendored.FindAllStringSubmatch(string(text), -1) {
		sums[m[1]] = m[2]
	}
	n := 0
	err = fs.WalkDir(files, "files/vendor", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		data, err := files.ReadFile(name)
		sum := sha256.Sum256(data)
		file := strings.TrimPrefix(name, "files/vendor/")
		if got := hex.EncodeToString(sum[:]); got != sums[file] {
			t.Errorf("%s has the checksum %s, the table says %s", file, got, sums[file])
		}
		return err
	})
	if err != nil || n != len(sums) {
		t.Errorf("%d files, %d in the table: %v", n, len(sums), err)
	}
}
