package image

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Type says what an entry is.
type Type string

// The types of entries.
const (
	TypeFile     Type = "file"     // a regular file, with content
	TypeDir      Type = "dir"      // a directory
	TypeSymlink  Type = "symlink"  // Link is its target, any text
	TypeHardlink Type = "hardlink" // Link is the name of an earlier entry, not a directory nor a hardlink
	TypeChar     Type = "char"     // a character device, Rdev says which
	TypeBlock    Type = "block"    // a block device, Rdev says which
	TypeFIFO     Type = "fifo"     // a named pipe
)

// Entry is one element of an image: a file of the capture, or a file, directory
// or the like of the session's own files.
type Entry struct {
	// Name is relative and slash-separated, without "." or ".." elements; its
	// first element says which part of the session it belongs to: "record" or what the
	// driver calls it, "criu", "upper", "volumes" and so on. It is unique within the image.
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Mode holds the permission bits with setuid, setgid and sticky, as in
	// st_mode & 07777. The type is Type's to say.
	Mode  uint32 `json:"mode"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	MTime int64  `json:"mtime"` // nanoseconds since 1970, UTC
	// Size is the length of the content in bytes; 0 for all but files.
	Size   int64             `json:"size"`
	Link   string            `json:"link,omitempty"`   // target of a symlink or hardlink
	Rdev   uint64            `json:"rdev,omitempty"`   // device number of char and block, as in st_rdev
	Xattrs map[string][]byte `json:"xattrs,omitempty"` // extended attributes by full name
}

// maxEntryName bounds names: PATH_MAX and a prefix.
const maxEntryName = 8192

// checkEntryName refuses a name that could lead out of the directory that an
// image is restored into.
func checkEntryName(name string) error {
	if name == "" || len(name) > maxEntryName {
		return fmt.Errorf("entry name of %d bytes: want 1 to %d", len(name), maxEntryName)
	}
	if strings.ContainsRune(name, 0) {
		return fmt.Errorf("entry name %q holds a zero byte", name)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("entry name %q: not a clean relative path", name)
		}
	}
	return nil
}

func (e Entry) check() error {
	if err := checkEntryName(e.Name); err != nil {
		return err
	}
	if e.Mode&^0o7777 != 0 {
		return fmt.Errorf("entry %q: mode %#o has bits beyond 07777", e.Name, e.Mode)
	}
	switch e.Type {
	case TypeFile, TypeDir, TypeFIFO, TypeChar, TypeBlock:
		if e.Link != "" {
			return fmt.Errorf("entry %q: a %s has no link target", e.Name, e.Type)
		}
	case TypeSymlink:
		if e.Link == "" || strings.ContainsRune(e.Link, 0) {
			return fmt.Errorf("entry %q: symlink to %q", e.Name, e.Link)
		}
	case TypeHardlink:
		if err := checkEntryName(e.Link); err != nil {
			return fmt.Errorf("entry %q: hardlink: %w", e.Name, err)
		}
	default:
		return fmt.Errorf("entry %q: unknown type %q", e.Name, e.Type)
	}
	if e.Type != TypeFile && e.Size != 0 {
		return fmt.Errorf("entry %q: a %s has no content", e.Name, e.Type)
	}
	for name := range e.Xattrs {
		if name == "" || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			return fmt.Errorf("entry %q: invalid name of an extended attribute: %q", e.Name, name)
		}
	}
	return nil
}

// checkTree refuses entries that can't be restored in their order, or only by
// writing through something that is not a directory.
func checkTree(entries []Entry) error {
	types := make(map[string]Type, len(entries))
	for _, e := range entries {
		if _, twice := types[e.Name]; twice {
			return fmt.Errorf("entry %q comes twice", e.Name)
		}
		if target := types[e.Link]; e.Type == TypeHardlink && (target == "" || target == TypeDir || target == TypeHardlink) {
			return fmt.Errorf("entry %q: hardlink to %q, which is no earlier file", e.Name, e.Link)
		}
		types[e.Name] = e.Type
	}
	for _, e := range entries {
		for i, c := range []byte(e.Name) {
			if c != '/' {
				continue
			}
			if t, ok := types[e.Name[:i]]; ok && t != TypeDir {
				return fmt.Errorf("entry %q lies below %q, which is a %s", e.Name, e.Name[:i], t)
			}
		}
	}
	return nil
}
