package hide

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// mountLine is what is used of one line of mountinfo.
type mountLine struct {
	device string // of its file system
	root   string // the path in that file system of what is mounted
	point  string // where
}

// sameFileSystem gives two locations as paths of the file system that both are in, if they are
// in the same.
func sameFileSystem(a, b location) (paths [2]string, same bool, err error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return paths, false, fmt.Errorf("read the mounts: %w", err)
	}
	defer f.Close()
	var found [2]mountLine
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		id, m, ok := parseMount(lines.Text())
		if !ok {
			return paths, false, fmt.Errorf("read the mounts: %q is no line of mountinfo", lines.Text())
		}
		for i, l := range []location{a, b} {
			if id == l.mount {
				found[i] = m
			}
		}
	}
	if err := lines.Err(); err != nil {
		return paths, false, fmt.Errorf("read the mounts: %w", err)
	}
	if found[0].device == "" || found[0].device != found[1].device {
		return paths, false, nil
	}
	for i, l := range []location{a, b} {
		rel, ok := strings.CutPrefix(l.path, strings.TrimSuffix(found[i].point, "/"))
		if !ok || rel != "" && rel[0] != '/' {
			return paths, false, fmt.Errorf("%s isn't below %s, where its file system is mounted", l.path, found[i].point)
		}
		paths[i] = path.Join(found[i].root, rel)
	}
	return paths, true, nil
}

// parseMount reads one line:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parseMount(line string) (id uint64, m mountLine, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 {
		return 0, m, false
	}
	id, err := strconv.ParseUint(fields[0], 10, 64)
	return id, mountLine{fields[2], unescape(fields[3]), unescape(fields[4])}, err == nil
}

// unescape reads \040 and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
