package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// printing captures what is printed.
func printing(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	usual := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = usual }()
	do()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hostileText sets a terminal's title, moves its cursor, and shows text in another order.
const hostileText = "a\x1b]0;title\x07\x1b[2J\r\b\u009b1m\u202eb\u2028c\x7f"

func TestHostileTextIsShownAsText(t *testing.T) {
	for text, want := range map[string]string{
		hostileText:                  `a\u001b]0;title\u0007\u001b[2J\u000d\u0008\u009b1m\u202eb\u2028c\u007f`,
		"two\tcolumns\nand größe 日本": "two\tcolumns\nand größe 日本",
		"no \xff text":               "no \ufffd text",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}

func TestHostileTextInJSON(t *testing.T) {
	out := printing(t, func() {
		if err := printJSON(map[string]string{"program": hostileText}); err != nil {
			t.Fatal(err)
		}
	})
	if strings.ContainsFunc(out, hostile) {
		t.Errorf("it prints %q", out)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(out), &back); err != nil || back["program"] != hostileText {
		t.Errorf("it is read as %q, %v", back["program"], err)
	}
}

// raw are the files that carry the streams of a session or of a command, or what this process
// says of itself.
var raw = map[string]bool{
	"attach.go": true, "shared.go": true, "exec.go": true, "logs.go": true, "output.go": true, "busy.go": true, // streams
	"log.go": true, "up.go": true, "worker.go": true, "scheduler.go": true, "api.go": true, "gateway.go": true, "doctor.go": true, // of this process
	"progress.go": true, "watch.go": true, "replay.go": true, // draw over what they drew
	"clean.go": true, "man.go": true, // which is another program
}

// Verbs print by the screens alone, so that no text is forgotten.
func TestAllIsPrintedClean(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	past := regexp.MustCompile(`fmt\.Print|os\.Std(out|err)\b`)
	for _, file := range files {
		if raw[file] || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := past.Find(text); found != nil {
			t.Errorf("%s prints by %s, past the screens of clean.go", file, found)
		}
	}
}
