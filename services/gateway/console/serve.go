package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed files
var files embed.FS

const (
	// Root is where the console begins.
	Root = "/"
	// Below is where its other files are.
	Below = "/console/"
	// Shared is the page on which those who have the link of a share watch its terminal.
	Shared = "/shared"
)

// policy is the Content-Security-Policy of the pages: scripts and styles are files of this origin, and no text becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// types are the content types, by the end of a file's name. Files of others aren't served.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pages are the files that have a path of their own.
var pages = map[string]string{"index.html": Root + "{$}", "shared.html": Shared}

// file is one of the files, as it is sent.
type file struct {
	path        string
	contentType string
	etag        string // without its quotes
	plain       []byte
	zipped      []byte
}

// Open reports whether a path is one of the console's, which say nothing that isn't in the program anyway.
func Open(urlPath string) bool {
	return urlPath == Root || urlPath == Shared || strings.HasPrefix(urlPath, Below)
}

// Register serves the console.
func Register(mux *http.ServeMux) error {
	all, err := read()
	if err != nil {
		return fmt.Errorf("read the console: %w", err)
	}
	for _, f := range all {
		mux.Handle("GET "+f.path, f)
	}
	return nil
}

// read gives the files. They are compressed once, for all gateways of the process.
var read = sync.OnceValues(func() (all []*file, err error) {
	err = fs.WalkDir(files, "files", func(name string, d fs.DirEntry, err error) error {
		contentType := types[path.Ext(name)]
		if err != nil || d.IsDir() || contentType == "" {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		below := strings.TrimPrefix(name, "files/")
		f := &file{path: Below + below, contentType: contentType, plain: data}
		if at, ok := pages[below]; ok {
			f.path = at
		}
		sum := sha256.Sum256(data)
		f.etag = hex.EncodeToString(sum[:16])
		f.zipped, err = compress(data)
		all = append(all, f)
		return err
	})
	return all, err
})

func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// ServeHTTP implements http.Handler. A browser asks each time whether its copy is the one of this version.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept-Encoding")
	data, etag := f.plain, f.etag
	if takesGzip(r.Header.Values("Accept-Encoding")) {
		data, etag = f.zipped, f.etag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", strconv.Quote(etag))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// takesGzip reads Accept-Encoding.
func takesGzip(headers []string) bool {
	for _, line := range headers {
		for one := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(strings.TrimSpace(one), ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
				return err != nil || q > 0
			}
		}
	}
	return false
}
