package preflight

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// gatherKeys counts the keys of the users whose processes may have some: those that no filter
// of system calls stops, as Diapause's own does.
func gatherKeys(f *Facts) {
	for _, p := range f.Processes {
		if _, done := f.Keys[p.User]; done || !p.Free || p.State == 'Z' {
			continue
		}
		if n := keysOf(p.User); n > 0 {
			if f.Keys == nil {
				f.Keys = map[uint64]int{}
			}
			f.Keys[p.User] = n
		}
	}
}

// keysOf counts the keys that a user may see of its own. Where they can't be listed there are none.
func keysOf(user uint64) (n int) {
	_ = thread.Discard(func() error {
		if err := unix.Setfsuid(int(user)); err != nil { // whose keys /proc/keys lists
			return err
		}
		b, err := os.ReadFile("/proc/keys")
		n = countKeys(string(b), user)
		return err
	})
	return n
}

// payloads are the types of keys that programs make to keep something there.
var payloads = []string{"user", "logon", "big_key", "encrypted", "trusted"}

// countKeys counts the keys of a user in a text like /proc/keys. The eighth column is the type.
func countKeys(text string, user uint64) int {
	n := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 8 && fields[5] == strconv.FormatUint(user, 10) && slices.Contains(payloads, fields[7]) {
			n++
		}
	}
	return n
}
