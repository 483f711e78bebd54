package gateway

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestClients has clients ask that generators made of the document, in Go and in TypeScript: each has a
// session live, and compiles against the types that the document gives.
func TestClients(t *testing.T) {
	w := newWorld(t)
	r := w.send(w.address, "GET", "/api/v1/openapi.json", "", "")
	document, err := io.ReadAll(r.Body)
	w.must(err)
	token := w.token("--role", "operator")
	client := func(name string, commands ...[]string) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w.must(os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
			w.must(os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o600))
			for _, c := range commands {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				cmd := exec.CommandContext(ctx, c[0], c[1:]...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GOWORK=off", "DIAPAUSE_HTTP=http://"+w.address, "DIAPAUSE_TOKEN="+token)
				out, err := cmd.CombinedOutput()
				cancel()
				if err != nil {
					t.Fatalf("%v: %v\n%s", c, err, out)
				}
			}
		})
	}
	client("go",
		[]string{"go", "tool", "oapi-codegen", "-config", "oapi.yaml", "openapi.json"},
		[]string{"go", "run", "."})
	modules := filepath.Join(cmp.Or(os.Getenv("DIAPAUSE_PREFIX"), "/opt/diapause"), "node", "clients", "node_modules")
	if _, err := os.Stat(modules); err != nil {
		t.Fatalf("%v; `make setup-test` installs the npm packages", err)
	}
	client("typescript",
		[]string{"ln", "-s", modules, "node_modules"},
		[]string{"node_modules/.bin/openapi-typescript", "openapi.json", "-o", "api.ts"},
		[]string{"node_modules/.bin/tsc", "-p", "."},
		[]string{"node", "out/main.js"})
}
