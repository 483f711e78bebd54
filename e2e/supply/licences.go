package supply

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/licensecheck"
)

// Licence is under which terms a module may be given on.
type Licence struct {
	IDs  []string // of SPDX, in alphabetical order
	Text string   // of all its files, notices among them
}

// allowed are the licences under which a module may be linked: none of them asks for
// more than its text, and MPL-2.0 for the source of changed files.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense", "blessing"}

var (
	// ErrNoLicence: the source of a module doesn't say under which licence it is.
	ErrNoLicence = errors.New("no known licence")
	// ErrLicence: a module is under a licence that isn't allowed.
	ErrLicence = errors.New("not an allowed licence")
)

var (
	licenceFile  = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$`)
	noticeFile   = regexp.MustCompile(`(?i)^(notice|patents)([-._].*)?$`)
	thirdParties = regexp.MustCompile(`(?i)(3rd|third)[-._]?part`)
	ofDocuments  = regexp.MustCompile(`(?i)[-._](docs|logo)$`) // nothing of them is linked
)

// sure is how much of a file must be a known licence, in percent: the rest is who holds the
// copyright. A file about what a module has of others says more beside their licences.
const sure = 75

// inPublicDomain is what SQLite says of itself, which SPDX calls its blessing.
var inPublicDomain = []byte("All of the code and documentation in SQLite has been dedicated to the public\ndomain by the authors.")

// LicenceOf reads the licence of a module in its source. Its errors are ErrNoLicence and
// ErrLicence, with its path.
func LicenceOf(m Module) (Licence, error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return Licence{}, fmt.Errorf("read the source of %s: %w", m.Path, err)
	}
	var l Licence
	for _, e := range entries {
		known := licenceFile.MatchString(e.Name())
		if e.IsDir() || ofDocuments.MatchString(e.Name()) || !known && !noticeFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return Licence{}, fmt.Errorf("read the licence of %s: %w", m.Path, err)
		}
		l.Text += fmt.Sprintf("%s\n\n", text)
		if !known {
			continue
		}
		if bytes.Contains(text, inPublicDomain) {
			l.IDs = append(l.IDs, "blessing")
			continue
		}
		covered := licensecheck.Scan(text)
		if covered.Percent < sure && !thirdParties.MatchString(e.Name()) {
			return Licence{}, fmt.Errorf("%w: %s of %s is one by %.0f %%", ErrNoLicence, e.Name(), m.Path, covered.Percent)
		}
		for _, match := range covered.Match {
			l.IDs = append(l.IDs, match.ID)
		}
	}
	slices.Sort(l.IDs)
	l.IDs = slices.Compact(l.IDs)
	if len(l.IDs) == 0 {
		return Licence{}, fmt.Errorf("%w: %s %s", ErrNoLicence, m.Path, m.Version)
	}
	return l, onlyAllowed(m.Path, m.Version, l.IDs)
}

// onlyAllowed refuses licences that aren't allowed.
func onlyAllowed(name, version string, ids []string) error {
	for _, id := range ids {
		if !slices.Contains(allowed, id) {
			return fmt.Errorf("%w: %s %s is under %s", ErrLicence, name, version, id)
		}
	}
	return nil
}
