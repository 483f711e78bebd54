package supply

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/diapause/diapause/e2e/compat/local"
)

// TestBill: each module that the built program says it has is in the bill, with a licence that
// is allowed, and no module that only tests use.
func TestBill(t *testing.T) {
	root, err := local.Root()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := Modules(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	linked, err := Read(modules)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	vendored, err := ReadVendored(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteBill(&out, "1.2.3", linked, vendored); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	var bill cdx.BOM
	if err := cdx.NewBOMDecoder(&out, cdx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	if got := bill.Metadata.Component.Version; got != "1.2.3" {
		t.Errorf("the bill is of version %s", got)
	}
	listed := map[string]bool{}
	for _, c := range *bill.Components {
		listed[c.Name+" "+c.Version] = true
		if c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s has no licence", c.Name)
		}
	}
	if !listed["@xterm/xterm 6.0.0"] || !strings.Contains(text, `"purl": "pkg:npm/%40xterm/xterm@6.0.0"`) || !strings.Contains(text, "b336ec65a086c056d4804b3d4c2347da5663d3f23c3f25be866467bd8857ad59") {
		t.Error("the bill lacks xterm.js, or its digest")
	}
	program, err := local.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	built, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range built.Deps {
		if !strings.HasPrefix(m.Path, ours) && !listed[m.Path+" "+m.Version] {
			t.Errorf("%s %s is linked and not in the bill", m.Path, m.Version)
		}
	}
	if !listed["std "+built.GoVersion] {
		t.Errorf("the bill lacks Go's standard library, %s", built.GoVersion)
	}
	if slices.ContainsFunc(linked, func(l Linked) bool { return l.Path == "pgregory.net/rapid" }) {
		t.Error("the bill has a module that only tests use")
	}
}

// TestVendoredFiles: a file of others that isn't in the table, or isn't what it says, is an error.
func TestVendoredFiles(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, filepath.FromSlash(console))
	if err := os.MkdirAll(filepath.Join(dir, "files", "vendor"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	row := func(file, licence string) string {
		return "| `" + file + "` | @of/a 1.0.0 | `x` | " + licence + " | `" + empty + "` |\n"
	}
	write("files/vendor/a.mjs", "")
	write("files/vendor/LICENSE.a", "")
	write("README.md", row("a.mjs", "MIT")+row("LICENSE.a", "MIT"))
	all, err := ReadVendored(root)
	if err != nil || len(all) != 1 || len(all[0].Files) != 2 || all[0].component().PackageURL != "pkg:npm/%40of/a@1.0.0" {
		t.Fatalf("it is %+v, %v", all, err)
	}
	write("README.md", row("a.mjs", "MIT"))
	if _, err := ReadVendored(root); !errors.Is(err, ErrVendored) {
		t.Errorf("a file that isn't in the table: %v", err)
	}
	write("README.md", row("a.mjs", "GPL-2.0")+row("LICENSE.a", "GPL-2.0"))
	if _, err := ReadVendored(root); !errors.Is(err, ErrLicence) {
		t.Errorf("a licence that isn't allowed: %v", err)
	}
	write("README.md", row("a.mjs", "MIT")+row("LICENSE.a", "MIT"))
	write("files/vendor/a.mjs", "changed")
	if _, err := ReadVendored(root); !errors.Is(err, ErrVendored) {
		t.Errorf("a file that was changed: %v", err)
	}
}

// TestUnknownLicence: a module without a licence, or with one that isn't allowed, is an error.
func TestUnknownLicence(t *testing.T) {
	root, err := local.Root()
	if err != nil {
		t.Fatal(err)
	}
	apache, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file, text string
		want             error
	}{
		{"allowed", "LICENSE.txt", string(apache), nil},
		{"none", "README", "It is free.", ErrNoLicence},
		{"own words", "LICENSE", strings.Repeat("You may use this on Sundays. ", 50), ErrNoLicence},
		{"copyleft", "COPYING", "SPDX-License-Identifier: x\n" + gpl, ErrLicence},
		{"of its documents", "LICENSE.docs", string(apache), ErrNoLicence},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := LicenceOf(Module{Path: "example.org/m", Version: "v1.0.0", Dir: dir})
			if !errors.Is(err, c.want) {
				t.Errorf("the error is %v, want %v", err, c.want)
			}
		})
	}
}

// gpl is the notice that files under it carry.
const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the
GNU General Public License as published by the Free Software Foundation, either version 3 of the License,
or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even
the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public
License for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see
<https://www.gnu.org/licenses/>.
`

// TestDatabase: what was fetched once serves without a network, and says so; a broken or
// hostile archive leaves the copy as it was.
func TestDatabase(t *testing.T) {
	serve := archive(t, map[string]string{"index/db.json": `{"modified": "2026-01-02T03:04:05Z"}`, "ID/GO-1.json": "{}"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(serve) }))
	defer server.Close()
	cache := filepath.Join(t.TempDir(), "cache", "vulndb")

	_, err := Fetch(t.Context(), server.URL+"\x7f", cache)
	if !errors.Is(err, ErrNoDatabase) || !strings.Contains(err.Error(), "VULNDB=DIR") {
		t.Fatalf("without network and copy: %v", err)
	}
	d, err := Fetch(t.Context(), server.URL, cache)
	if err != nil || d.Offline != nil || !d.Modified.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Fatalf("fetched: %+v, %v", d, err)
	}
	// sha256sum ID/GO-1.json index/db.json | sha256sum
	const digest = "sha256:5d45ce69615157846fec0149c911dfb7d162b4c285e25cf7edad8cf083ea4e71"
	if d.Digest != digest || d.Is(digest) != nil || d.Is("") != nil || !errors.Is(d.Is("sha256:00"), ErrOther) {
		t.Errorf("the copy has the digest %s, want %s: %v", d.Digest, digest, d.Is(digest))
	}
	for name, hostile := range map[string][]byte{
		"cut":     serve[:len(serve)/2],
		"outside": archive(t, map[string]string{"../../out": "x", "index/db.json": `{"modified": "2030-01-01T00:00:00Z"}`}),
		"empty":   archive(t, nil),
	} {
		serve = hostile
		d, err := Fetch(t.Context(), server.URL, cache)
		if err != nil || d.Offline == nil || d.Modified.Year() != 2026 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	server.Close()
	d, err = Fetch(t.Context(), server.URL, cache)
	if err != nil || d.Offline == nil {
		t.Fatalf("without network: %+v, %v", d, err)
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "ID", "GO-1.json")); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(cache))
	if err != nil || len(left) != 1 {
		t.Errorf("left beside the copy: %v, %v", left, err)
	}
}

func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
