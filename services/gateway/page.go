package gateway

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
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
	text, err := json.Marshal(g.doc.OpenAPI())
	if err != nil {
		return fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	yaml, err := g.doc.OpenAPI().YAML()
	if err != nil {
		return fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	serve(mux, prefix+"/openapi.json", "application/openapi+json", text)
	serve(mux, prefix+"/openapi.yaml", "application/openapi+yaml", yaml)
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

func serve(mux *http.ServeMux, path, contentType string, data []byte) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Security-Policy", pagePolicy)
		_, _ = w.Write(data) // the client is gone, then
	})
}
