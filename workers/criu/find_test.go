package criu

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFingerprintIsAskedOnce has a criu that counts how often it is run.
func TestFingerprintIsAskedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	criu, runs := filepath.Join(dir, "criu"), filepath.Join(dir, "runs")
	install := func(version string) {
		t.Helper()
		script := "#!/bin/sh\necho run >> " + runs + "\necho Version: " + version + "\n"
		if err := os.WriteFile(criu+".new", []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(criu+".new", criu); err != nil {
			t.Fatal(err)
		}
	}
	d := &Driver{options: Options{Criu: []string{"/bin/sh", criu}}}
	want := func(engine, count string) {
		t.Helper()
		fp, err := d.Fingerprint(limited(t))
		if err != nil || fp.Engine != engine {
			t.Fatalf("Fingerprint gives %+v, %v; want %s", fp, err, engine)
		}
		if b, err := os.ReadFile(runs); err != nil || string(b) != count {
			t.Errorf("it was run so often: %q, %v; want %q", b, err, count)
		}
	}
	install("4.2.1")
	want("criu 4.2.1", "run\n")
	want("criu 4.2.1", "run\n")
	install("4.3")
	want("criu 4.3", "run\nrun\n")
	want("criu 4.3", "run\nrun\n")
	if err := os.Remove(criu); err != nil {
		t.Fatal(err)
	}
	if fp, err := d.Fingerprint(limited(t)); err == nil {
		t.Errorf("without criu Fingerprint gives %+v", fp)
	}
}
