package supply

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// console is the directory of the console's files, of which vendor has what others have written.
const console = "services/gateway/console"

// ErrVendored: the table of the console's files doesn't say what is there.
var ErrVendored = errors.New("the table of the console's files is wrong")

// Vendored is an npm package of which the program has files.
type Vendored struct {
	Name, Version, Licence string
	Files                  []VendoredFile
	Text                   string // of its licence
}

// VendoredFile is one of them.
type VendoredFile struct{ Name, SHA256 string }

// vendoredRow is a row of the table: the file, its package and version, where it is there, the licence, and the digest.
var vendoredRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\[?(@?[a-z0-9./-]+)(?:\\]\\([^)]*\\))? ([0-9.]+) \\| `[^`]+` \\| ([A-Za-z0-9.-]+) \\| `([0-9a-f]{64})` \\|$")

// ReadVendored gives the packages of the console's table, in its order. Its errors are ErrVendored, with the file, where that
// isn't what the table says or isn't in it, and ErrLicence.
func ReadVendored(root string) ([]*Vendored, error) {
	dir := filepath.Join(root, filepath.FromSlash(console))
	table, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return nil, fmt.Errorf("read the console's table: %w", err)
	}
	vendor := filepath.Join(dir, "files", "vendor")
	left := map[string]bool{}
	err = fs.WalkDir(os.DirFS(vendor), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			left[name] = true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's files: %w", err)
	}
	var all []*Vendored
	of := map[string]*Vendored{}
	for _, m := range vendoredRow.FindAllStringSubmatch(string(table), -1) {
		file, name, version, licence, digest := m[1], m[2], m[3], m[4], m[5]
		v := of[name]
		if v == nil {
			v = &Vendored{Name: name, Version: version, Licence: licence}
			of[name], all = v, append(all, v)
		}
		data, err := os.ReadFile(filepath.Join(vendor, filepath.FromSlash(file)))
		if err != nil {
			return nil, fmt.Errorf("read a file of %s: %w", name, err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest || v.Version != version || v.Licence != licence {
			return nil, fmt.Errorf("%w: %s of %s %s, %s", ErrVendored, file, name, version, licence)
		}
		delete(left, file)
		v.Files = append(v.Files, VendoredFile{Name: file, SHA256: digest})
		if licenceFile.MatchString(path.Base(file)) {
			v.Text += fmt.Sprintf("%s\n\n", data)
		}
	}
	for file := range left {
		return nil, fmt.Errorf("%w: it lacks %s", ErrVendored, file)
	}
	for _, v := range all {
		if err := v.allowed(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// allowed checks the licence, and that it goes with the files.
func (v *Vendored) allowed() error {
	if v.Text == "" {
		return fmt.Errorf("%w: %s %s", ErrNoLicence, v.Name, v.Version)
	}
	return onlyAllowed(v.Name, v.Version, []string{v.Licence})
}

// component is the package in a bill, with its files and their digests.
func (v *Vendored) component() cdx.Component {
	ref := fmt.Sprintf("pkg:npm/%s@%s", strings.Replace(v.Name, "@", "%40", 1), v.Version)
	files := make([]cdx.Component, 0, len(v.Files))
	for _, f := range v.Files {
		files = append(files, cdx.Component{BOMRef: ref + "#" + f.Name, Type: cdx.ComponentTypeFile, Name: f.Name, Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: f.SHA256}}})
	}
	return cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: v.Name, Version: v.Version, PackageURL: ref,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: v.Licence}}}, Components: &files,
	}
}
