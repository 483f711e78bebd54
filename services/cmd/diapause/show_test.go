package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// What waits for other operations of its host is shown with its place.
func TestShowPlaceInTheQueue(t *testing.T) {
	shown := func(v schemas.View) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "out")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		before := printed
		printed = screen{func() *os.File { return f }}
		defer func() { printed = before }()
		printSession(v)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	v := schemas.View{Name: "work", State: schemas.Suspending, Op: schemas.OpSuspend}
	if got := shown(v); !strings.Contains(got, "under way    suspend\n") || strings.Contains(got, "queue") {
		t.Errorf("without a place:\n%s", got)
	}
	v.Queue = &schemas.QueuePlace{Place: 2, Of: 5, Limit: "memory=1G"}
	if got := shown(v); !strings.Contains(got, "under way    suspend\nqueue        2nd of 5, waiting for memory=1G\n") {
		t.Errorf("with a place:\n%s", got)
	}
}
