package image

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cliPath has the age and zstd programs on it.
func cliPath(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "age"), "filippo.io/age/cmd/age").CombinedOutput(); err != nil {
		t.Fatalf("build age: %v: %s", err, out)
	}
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Fatalf("this test needs the zstd program: apt-get install zstd")
	}
	return bin + string(os.PathListSeparator) + os.Getenv("PATH")
}

// documented is the script that FORMAT.md shows.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(text)
	if script == nil {
		t.Fatal("FORMAT.md shows no script")
	}
	return string(script[1])
}

// A person gets files back with age, zstd and the steps of FORMAT.md alone.
func TestRestoreByHand(t *testing.T) {
	path, script := cliPath(t), documented(t)
	f, head := goldenFixture(t)
	identity, err := filepath.Abs("testdata/golden/identity.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range goldenItems() {
		if len(it.data) == 0 {
			continue
		}
		out := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+path, "lineage="+f.path("acme/lin1"), "snap="+SnapshotID(head.Name),
			"identity="+identity, "file="+it.Name, "out="+out, "work="+t.TempDir())
		log, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", it.Name, err, log)
		}
		if !strings.Contains(string(log), head.Digest) {
			t.Errorf("%s: printed %q, want the digest %s", it.Name, log, head.Digest)
		}
		got, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, it.data) {
			t.Errorf("%s: %d bytes, error %v, want the %d that were written", it.Name, len(got), err, len(it.data))
		}
	}
}

// A pack is the plain concatenation of its pages.
func TestPackByHand(t *testing.T) {
	path := cliPath(t)
	f := newFixture(t)
	data := append(text(3<<20), random(PageSize)...)
	_, head, _ := f.write(f.options(), []item{fileItem("criu/a", data)})
	r := f.open(head)
	cmd := exec.Command("sh", "-c", `age -d -i identity -o key "$key" && age -d -i key "$pack" | zstd -dc`)
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, "identity"), []byte(f.identity.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PATH="+path, "key="+f.path(f.under("keys/")[0]), "pack="+f.path(r.packs[0].name))
	got, err := cmd.Output()
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, error %v, want %d", len(got), err, len(data))
	}
}
