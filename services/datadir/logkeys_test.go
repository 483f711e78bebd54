package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// The keys that nats-config makes are those that an API reads, and that the first start of `up` with a server of the
// fleet's takes over. A second run keeps them.
func TestLogKeys(t *testing.T) {
	creds := t.TempDir()
	for range 2 {
		files, err := MakeLogKeys(creds)
		if err != nil || len(files) != 2 {
			t.Fatalf("made %v: %v", files, err)
		}
	}
	k, err := ReadLogKeys(filepath.Join(creds, "api.nk"))
	if err != nil || k.Key == nil || k.Signer == nil {
		t.Fatalf("read %+v: %v", k, err)
	}
	d := open(t, filepath.Join(t.TempDir(), "data"))
	own, err := d.LogKey(filepath.Join(creds, "system.nk"))
	if err != nil || own.String() != k.Key.String() {
		t.Errorf("the directory has another key: %v", err)
	}
	again, err := d.LogKey("")
	if err != nil || again.String() != own.String() {
		t.Errorf("without the credentials it has another key: %v", err)
	}
	alone, err := open(t, filepath.Join(t.TempDir(), "data")).LogKey("")
	if err != nil || alone.String() == own.String() {
		t.Errorf("a directory without credentials has the fleet's key: %v", err)
	}
}

// What isn't there, and what systemd gives for it, is no key. What is damaged is an error.
func TestLogKeysBeside(t *testing.T) {
	dir := t.TempDir()
	creds, key := filepath.Join(dir, "api.nk"), filepath.Join(dir, LogFile)
	for what, text := range map[string]string{"no file": "", "comments": "#none", "a damaged key": "AGE-SECRET-KEY-1QQQ\n"} {
		if text != "" {
			if err := os.WriteFile(key, []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		k, err := ReadLogKeys(creds)
		if bad := what == "a damaged key"; k.Key != nil || (err != nil) != bad {
			t.Errorf("%s: read %+v: %v", what, k, err)
		}
		if err := os.RemoveAll(key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := MakeLogKeys(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, LogSignerFile)); err != nil {
		t.Fatal(err)
	}
	if k, err := ReadLogKeys(creds); err != nil || k.Key == nil || k.Signer != nil {
		t.Errorf("without what signs: read %+v: %v", k, err)
	}
	if k, err := ReadLogKeys(""); err != nil || k.Key != nil {
		t.Errorf("without credentials: read %+v: %v", k, err)
	}
}
