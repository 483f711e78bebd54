package shim

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// criuFacts is where criu keeps what it found out about the kernel. That takes half of
// the time of a small dump. criu keeps it only in a memory file system, and shares this
// one with any other criu of the machine.
const criuFacts = "/run/criu.kdat"

// factsCache carries criu's facts from one shim to the next, as long as the host
// is up.
type factsCache struct{ file string }

// openFacts gives criu a /run of its own in the shim's mount namespace. Without
// it all works, only slower, so no failure matters.
func openFacts(s Setup) factsCache {
	boot := MachineBoot()
	if boot == "" {
		return factsCache{}
	}
	for _, path := range append([]string{s.Data, s.Base()}, s.Criu...) {
		if strings.HasPrefix(path+"/", "/run/") {
			return factsCache{} // it would be hidden
		}
	}
	dir := filepath.Join(s.Data, "cache")
	if os.MkdirAll(dir, 0o700) != nil || unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m") != nil {
		return factsCache{}
	}
	c := factsCache{filepath.Join(dir, "criu-"+boot+".kdat")}
	if b, err := os.ReadFile(c.file); err == nil {
		_ = os.WriteFile(criuFacts, b, 0o600)
	}
	return c
}

// save keeps what criu found out for the next shim.
func (c factsCache) save() {
	if c.file == "" {
		return
	}
	b, err := os.ReadFile(criuFacts)
	if err != nil {
		return
	}
	// Another build of criu makes facts of its own.
	if kept, err := os.ReadFile(c.file); err == nil && bytes.Equal(kept, b) {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(c.file), "new-*")
	if err != nil {
		return
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if tmp.Close() == nil && err == nil {
		_ = os.Rename(tmp.Name(), c.file)
	}
}
