package canary

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownFile is this program's file, also when it was replaced or removed.
const ownFile = "/proc/self/exe"

// reachable gives the path by which a session with the host's root can execute
// this program, or "": it sees the host's root file system, and nothing that is
// mounted in it.
func reachable() string {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil || strings.HasPrefix(path, "/run/") {
		return ""
	}
	var top, here, self unix.Statx_t
	const mask = unix.STATX_MNT_ID | unix.STATX_INO
	err = errors.Join(
		unix.Statx(unix.AT_FDCWD, "/", 0, mask, &top), unix.Statx(unix.AT_FDCWD, path, 0, mask, &here),
		unix.Statx(unix.AT_FDCWD, ownFile, 0, mask, &self))
	sameFile := here.Ino == self.Ino && here.Dev_major == self.Dev_major && here.Dev_minor == self.Dev_minor
	if err != nil || here.Mask&unix.STATX_MNT_ID == 0 || here.Mnt_id != top.Mnt_id || !sameFile {
		return ""
	}
	return path
}

// copySelf puts a copy of this program into a directory.
func copySelf(file string) (err error) {
	from, err := os.Open(ownFile)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return nil
}
