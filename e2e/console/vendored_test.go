package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const served = "../../services/gateway/console"

// modules are the npm packages of node/package-lock.json, whose integrity npm has checked.
func modules(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cmp.Or(os.Getenv("DIAPAUSE_PREFIX"), "/opt/diapause"), "node", "console", "node_modules")
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("%v; `make setup-test` installs the npm packages", err)
	}
	return dir
}

// A row of the table: the file, its package and version, and where it is there.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\[?(@?[a-z/-]+)(?:\\]\\([^)]*\\))? ([0-9.]+) \\| `([^`]+)` \\| ([A-Z0-9.-]+) \\|")

// TestVendored: what is committed is what its package on npm has.
func TestVendored(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(served, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(text), -1)
	for _, m := range rows {
		file, pkg, version, within, licence := m[1], m[2], m[3], m[4], m[5]
		dir := filepath.Join(modules(t), filepath.FromSlash(pkg))
		var about struct{ Version, License string }
		data, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err == nil {
			err = json.Unmarshal(data, &about)
		}
		if err != nil || about.Version != version || about.License != licence {
			t.Errorf("%s is of %s %s, %s; npm has %+v, %v", file, pkg, version, licence, about, err)
		}
		want, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(within)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(served, "files/vendor", file)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s isn't %s of %s: %v", file, within, pkg, err)
		}
	}
	if n := strings.Count(string(text), "@xterm/") + strings.Count(string(text), "@novnc/"); len(rows) < 5 || n < len(rows) {
		t.Errorf("the table has %d rows", len(rows))
	}
}
