package supply

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Database is a copy of Go's database of vulnerabilities, as govulncheck reads it
// (https://go.dev/doc/security/vuln/database).
type Database struct {
	Dir      string
	Modified time.Time // when it was changed last
	Digest   string    // of all files, "sha256:…"
	Offline  error     // why the copy is an older one, nil if it was fetched now
}

// ErrNoDatabase: the database can't be reached, and there is no copy of it.
var ErrNoDatabase = errors.New("no database of vulnerabilities")

// ErrOther: a copy isn't the one that was asked for.
var ErrOther = errors.New("another database of vulnerabilities")

// Is fails with ErrOther unless the copy has a digest; any copy is right if that is empty.
func (d Database) Is(digest string) error {
	if digest != "" && digest != d.Digest {
		return fmt.Errorf("%w in %s: %s, want %s", ErrOther, d.Dir, d.Digest, digest)
	}
	return nil
}

// largest bounds the database's files, in bytes. All of it was 20 MB in 2026.
const largest = 1 << 30

// Fetch takes the database's archive from url and keeps it in directory cache. If it can't be had,
// the copy of an earlier time is used, or, without one, the error is ErrNoDatabase.
func Fetch(ctx context.Context, url, cache string) (Database, error) {
	offline := download(ctx, url, cache)
	d, err := Open(cache)
	if err != nil && offline != nil {
		return Database{}, fmt.Errorf("%w: %w, and there is no copy in %s: unpack %s there on a machine that reaches it, or name a copy by VULNDB=DIR", ErrNoDatabase, offline, cache, url)
	}
	d.Offline = offline
	return d, err
}

// Open is the copy in a directory.
func Open(dir string) (Database, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Database{}, err
	}
	index := filepath.Join(dir, "index", "db.json")
	b, err := os.ReadFile(index)
	if err != nil {
		return Database{}, fmt.Errorf("%w in %s: %w", ErrNoDatabase, dir, err)
	}
	var says struct {
		Modified time.Time `json:"modified"`
	}
	if err := json.Unmarshal(b, &says); err != nil {
		return Database{}, fmt.Errorf("read %s: %w", index, err)
	}
	digest, err := digestOf(dir)
	return Database{Dir: dir, Modified: says.Modified, Digest: digest}, err
}

// digestOf gives the digest of what sha256sum prints of all files below a directory, in the order of their names.
func digestOf(dir string) (string, error) {
	all := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		one := sha256.New()
		if _, err := io.Copy(one, f); err != nil {
			return err
		}
		fmt.Fprintf(all, "%x  %s\n", one.Sum(nil), filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the database of vulnerabilities: %w", err)
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil)), nil
}

// download replaces the copy in directory cache by what is at url. A failure leaves it as it was.
func download(ctx context.Context, url, cache string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	if err := os.MkdirAll(filepath.Dir(cache), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(cache), "vulndb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	archive, err := os.CreateTemp(fresh, "archive-")
	if err != nil {
		return err
	}
	defer archive.Close()
	size, err := io.Copy(archive, io.LimitReader(response.Body, largest))
	if err != nil {
		return fmt.Errorf("fetch %s: %w", url, err)
	}
	unpacked := filepath.Join(fresh, "db")
	if err := unpack(archive, size, unpacked); err != nil {
		return fmt.Errorf("unpack %s: %w", url, err)
	}
	if _, err := Open(unpacked); err != nil {
		return err
	}
	if err := os.RemoveAll(cache); err != nil {
		return err
	}
	return os.Rename(unpacked, cache)
}

// unpack puts the files of a zip archive into directory to, and nothing beside it.
func unpack(archive io.ReaderAt, size int64, to string) error {
	r, err := zip.NewReader(archive, size)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(largest)
	for _, f := range r.File {
		if f.Mode().IsDir() {
			continue
		}
		left -= int64(f.UncompressedSize64)
		if left < 0 {
			return fmt.Errorf("it holds more than %d bytes", largest)
		}
		if err := root.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
			return err
		}
		if err := unpackFile(root, f); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(root *os.Root, f *zip.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.Create(f.Name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, int64(f.UncompressedSize64)))
	return errors.Join(err, out.Close())
}
