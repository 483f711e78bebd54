package shim

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/tree"
)

// numbered is a file of the session's private layer that was copied up from the root below. It has the
// inode number of the file below, and gets another one where that isn't the same file any more.
type numbered struct {
	Path  string `json:"path"` // relative to the session's root
	Inode uint64 `json:"inode"`
}

// copiedUp lists what the processes have open or mapped and has the number of a file below.
func copiedUp(name schemas.Name, own *layer, pids []int, opened *tree.Opened) ([]numbered, error) {
	if own.disk == nil { // all numbers change, of which each suspend warns
		return nil, nil
	}
	files, err := opened.Files(pids, "")
	if err != nil {
		return nil, fmt.Errorf("list the files that session %s uses: %w", name, err)
	}
	upper, err := os.Open(own.upper())
	if err != nil {
		return nil, fmt.Errorf("open the session's upper layer: %w", err)
	}
	defer upper.Close()
	var all []numbered
	seen := make(map[string]bool)
	for _, f := range files {
		rel := strings.TrimPrefix(path.Clean(f.Path), "/")
		if f.FS != tree.Overlay || f.Deleted || seen[rel] {
			continue
		}
		seen[rel] = true
		var above, st unix.Stat_t
		if unix.Fstatat(int(upper.Fd()), rel, &above, unix.AT_SYMLINK_NOFOLLOW) != nil || unix.Stat(f.Via, &st) != nil {
			continue
		}
		if above.Mode&unix.S_IFMT == unix.S_IFREG && above.Ino != st.Ino {
			all = append(all, numbered{Path: rel, Inode: st.Ino})
		}
	}
	return all, nil
}

// renumbered warns of files that have another number below root, where they are mounted, than they had.
func renumbered(root string, had []numbered) []schemas.Warning {
	dir, err := os.OpenRoot(root) // a symbolic link of the session's leads nowhere outside it
	if err != nil {
		return nil
	}
	defer dir.Close()
	var names []string
	for _, n := range had {
		is, err := dir.Lstat(strings.TrimPrefix(path.Clean("/"+n.Path), "/"))
		if err != nil {
			continue
		}
		if st, ok := is.Sys().(*syscall.Stat_t); ok && st.Ino != n.Inode {
			names = append(names, "/"+n.Path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	const most = 3
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text = fmt.Sprintf("%s and %d more", text, more)
	}
	return []schemas.Warning{{
		Code: schemas.WarnInodes, Subject: names[0],
		Text: fmt.Sprintf("the root below isn't the one it had: open files have other inode numbers than before (%s); programs that compare them, as SQLite does, must open them again", text),
	}}
}
