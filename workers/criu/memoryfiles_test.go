package criu

import (
	"bytes"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// TestMemoryFiles has files of each kind in a file system in memory. A few small ones criu
// writes and reads by itself, others by tar: both ways, and each after the other.
func TestMemoryFiles(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	const few = `mkdir -p d/e/f r t; chmod 1777 t; echo few-and-small >d/e/text; printf %03000d 7 >d/number; : >empty; chmod 4750 d/number
		chown 12:34 d/number d/e; ln -s ../d/e/text t/link; ln -s /no/such dangling; chown -h 56:78 dangling; mkfifo -m 620 fifo
		touch -h -d 2001-02-03T04:05:06Z d/e/text dangling r t; printf x >"a b
c"; chmod 555 r`
	steps := []struct {
		name, make string
		alone      bool // criu does it alone
	}{
		{"few", few, true},
		{"empty", "", true},
		{"hard links", few + `; ln d/number twin`, false},
		{"many", few + `; for i in $(seq 300); do echo $i >n$i; done`, false},
		{"large", few + `; head -c 2000000 /dev/urandom >large`, false},
		{"sparse", few + `; truncate -s 300000 sparse; echo end >>sparse`, false},
		{"long", few + `; long=$(printf %0150d 1); echo x >$long; mkdir -p deep/$long/$long; echo y >deep/$long/$long/z; ln -s $long$long far`, false},
		{"few again", few, true},
	}
	s := begin(t, open(t, t.TempDir()), "memory-files", schemas.Spec{Command: []string{"sleep", "infinity"}})
	list := func() string {
		return s.sh(`for at in /dev /dev/shm /run; do cd $at; find . -xdev ! -path ./diapause/generation -printf '%P %y %m %U %G %n %.10Ts %l\n' | grep -v '^pts\|^diapause d\|^ d' | LC_ALL=C sort
			find . -xdev -type f ! -path ./diapause/generation -exec md5sum {} + | LC_ALL=C sort; done; du -k /dev/shm | tail -n 1`)
	}
	for _, step := range steps {
		s.sh(`cd /dev/shm && chmod -R u+w . && find . -mindepth 1 -delete; ` + step.make)
		before := list()
		for range 2 {
			img := s.cycle()
			if after := list(); after != before {
				t.Fatalf("%s: after a resume there is\n%s\nwant\n%s", step.name, after, before)
			}
			packed := archives(t, img)
			if alone := bytes.Contains(packed, []byte("few-and-small")); step.make != "" && alone != step.alone {
				t.Errorf("%s: criu does it alone: %t, want %t", step.name, alone, step.alone)
			}
		}
	}
}

// archives gives an image's archives of file systems in memory, one after the other.
func archives(t *testing.T, img *drivertest.Image) (all []byte) {
	t.Helper()
	for _, e := range img.Entries() {
		if !strings.HasPrefix(path.Base(e.Name), "tmpfs-dev-") {
			continue
		}
		f, err := img.Open(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if len(all) == 0 {
		t.Error("the image has no archive")
	}
	return all
}
