package shim

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/tree"
)

// LowerFile is a file or directory that the session's processes use, and that
// comes from the layers below the session's own: another host, or this one
// later, may not have it as it is now.
type LowerFile struct {
	Path string `json:"path"`          // relative to the session's root
	Via  string `json:"via"`           // opens that very file on this host, while the session is there
	Dir  bool   `json:"dir,omitempty"` // a directory, to be there on restore
}

// lowerFiles lists what the processes have open or mapped or are in.
func lowerFiles(name schemas.Name, upperDir string, pids []int, opened *tree.Opened) ([]LowerFile, error) {
	files, err := opened.Files(pids, "")
	if err != nil {
		return nil, fmt.Errorf("list the files that session %s uses: %w", name, err)
	}
	upper, err := os.Open(upperDir)
	if err != nil {
		return nil, fmt.Errorf("open the session's upper layer: %w", err)
	}
	defer upper.Close()
	seen := make(map[string]bool)
	var all []LowerFile
	add := func(l LowerFile) {
		l.Path = strings.TrimPrefix(path.Clean(l.Path), "/")
		if l.Path != "" && !seen[l.Path] && !inUpper(upper, l.Path) {
			seen[l.Path] = true
			all = append(all, l)
		}
	}
	for _, f := range files {
		if f.FS == tree.Overlay && !f.Deleted {
			add(LowerFile{Path: f.Path, Via: f.Via})
		}
	}
	for _, pid := range pids {
		for _, l := range usedDirs(pid, opened) {
			add(l)
		}
	}
	return all, nil
}

// usedDirs lists the directories of the session's root file system that a
// process is in or has open.
func usedDirs(pid int, opened *tree.Opened) []LowerFile {
	vias := []string{fmt.Sprintf("/proc/%d/cwd", pid), fmt.Sprintf("/proc/%d/root", pid)}
	if fds, err := opened.FDs(pid); err == nil {
		for _, fd := range fds {
			if strings.HasPrefix(fd.Link, "/") {
				vias = append(vias, fd.Via())
			}
		}
	}
	var all []LowerFile
	for _, via := range vias {
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Stat(via, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || unix.Statfs(via, &fs) != nil || int64(fs.Type) != tree.Overlay {
			continue
		}
		link, err := os.Readlink(via)
		if err == nil && strings.HasPrefix(link, "/") && !strings.HasSuffix(link, " (deleted)") {
			all = append(all, LowerFile{Path: link, Via: via, Dir: true})
		}
	}
	return all
}

// inUpper reports whether the upper layer has name itself.
func inUpper(upper *os.File, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(upper.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}
