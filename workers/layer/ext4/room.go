package ext4

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The file of a file system takes room when blocks are written for the first time. If the
// host's disk is full then, what a program has written is lost, and it hears of it late or
// never. So file systems are bounded: each says that it is full before the disk is.

// The part of a disk that no file system gets: for what several write before they are bounded
// again, and for inode tables and bitmaps, which aren't counted as free space.
const (
	reserveMost  = 1 << 30 // bytes
	reserveShare = 20      // one in so many
)

// Room gives what file systems on a disk may still take together, in bytes.
func Room(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("look for free space: %w", err)
	}
	return room(int64(fs.Blocks)*fs.Bsize, int64(fs.Bavail)*fs.Bsize), nil
}

func room(size, free int64) int64 { return max(free-min(reserveMost, size/reserveShare), 0) }

// Promised gives what a mounted file system has allocated and its file has no room for yet,
// in bytes: what wasn't written out, and blocks of zeros.
func Promised(at, file string) (int64, error) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Statfs(at, &fs), unix.Stat(file, &st)); err != nil {
		return 0, fmt.Errorf("look what a layer takes: %w", err)
	}
	return max(int64(fs.Blocks-fs.Bfree)*BlockSize-st.Blocks*512, 0), nil
}

// Bound has a mounted file system give no more than room, in bytes. Programs, root's too,
// get ENOSPC beyond that, and see it as what is available.
func Bound(at string, room int64) error {
	fail := func(err error) error { return fmt.Errorf("bound a layer: %w", err) }
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Statfs(at, &fs), unix.Stat(at, &st)); err != nil {
		return fail(err)
	}
	if unix.Major(st.Dev) != loopMajor {
		return fail(errors.New("it isn't mounted"))
	}
	held := max(int64(fs.Bfree)-room/BlockSize, 0)
	path := fmt.Sprintf("/sys/fs/ext4/loop%d/reserved_clusters", unix.Minor(st.Dev))
	if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == strconv.FormatInt(held, 10) {
		return nil
	}
	if err := os.WriteFile(path, strconv.AppendInt(nil, held, 10), 0); err != nil {
		return fail(err)
	}
	return nil
}
