package gateway

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
)

// loginPage is where a browser logs in.
const loginPage = "/login"

// files are the pages that log a browser in, and that show the document and let one try it. They load nothing from
// elsewhere. Of the latter: the page that shows the document and lets one try it. It loads nothing from elsewhere.
//
//go:embed page
var files embed.FS

const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves the document and the page. All operations have been registered.
func (g *Gateway) page(mux *http.ServeMux) error {
	document(mux, prefix+"/openapi.json", "application/openapi+json", func() ([]byte, error) { return json.Marshal(g.doc.OpenAPI()) })
	document(mux, prefix+"/openapi.yaml", "application/openapi+yaml", g.doc.OpenAPI().YAML)
	for path, file := range map[string][2]string{
		prefix + "/docs":          {"page/page.html", "text/html; charset=utf-8"},
		prefix + "/docs/page.js":  {"page/page.js", "text/javascript; charset=utf-8"},
		prefix + "/docs/page.css": {"page/page.css", "text/css; charset=utf-8"},
		loginPage:                 {"page/login.html", "text/html; charset=utf-8"},
		loginPage + "/page.js":    {"page/login.js", "text/javascript; charset=utf-8"},
		loginPage + "/page.css":   {"page/page.css", "text/css; charset=utf-8"},
	} {
		data, err := fs.ReadFile(files, file[0])
		if err != nil {
			return fmt.Errorf("read the page: %w", err)
		}
		serve(mux, path, file[1], data)
	}
	return nil
}

// document serves what is encoded when it is first asked for: most who start a gateway never do.
func document(mux *http.ServeMux, path, contentType string, encode func() ([]byte, error)) {
	encoded := sync.OnceValues(encode)
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		data, err := encoded()
		if err != nil {
			refusal(http.StatusInternalServerError, fmt.Sprintf("encode the OpenAPI document: %v", err), "").write(w)
			return
		}
		write(w, contentType, data)
	})
}

func serve(mux *http.ServeMux, path, contentType string, data []byte) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { write(w, contentType, data) })
}

func write(w http.ResponseWriter, contentType string, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write(data) // the client is gone, then
}
