package compat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/compat/programs"
)

func TestParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.json")
	all := []programs.Program{{Name: "one", State: "its state"}, {Name: "two"}, {Name: "three"}}
	add := func(load string, rows ...Row) *Parts {
		t.Helper()
		p, err := ReadParts(path, "abc", 10)
		if err != nil {
			t.Fatal(err)
		}
		p.Add(rows, load)
		if err := p.Save(path); err != nil {
			t.Fatal(err)
		}
		return p
	}
	cycles := func(n int) []Cycle { return slices.Repeat([]Cycle{{Captured: 5e6, Resume: time.Second}}, n) }
	add("0.1", Row{Program: all[1], Version: "2.0", Err: errors.New("its state is lost")})
	p := add("0.2", Row{Program: all[0], Version: "1.0", Cycles: cycles(10)})
	if _, missing := p.Rows(all); !slices.Equal(missing, []string{"three"}) {
		t.Errorf("missing %v", missing)
	}
	if rows, _ := p.Rows(all); len(rows) != 2 || rows[0].Program.Name != "one" || rows[0].Program.State != "its state" || rows[1].Err == nil {
		t.Errorf("the rows are %+v", rows)
	}
	p = add("0.3", Row{Program: all[1], Version: "2.0", Cycles: cycles(9)}, Row{Program: all[2], Version: "3.0", Cycles: cycles(10)})
	rows, missing := p.Rows(all)
	if len(missing) > 0 || len(rows) != 3 || rows[1].Err != nil || len(rows[1].Cycles) != 9 {
		t.Errorf("missing %v, the rows are %+v", missing, rows)
	}
	table := string(Write(context.Background(), rows, p.Rounds, p.Load()))
	if !strings.Contains(table, "0.1; 0.2; 0.3") || !strings.Contains(table, "| one | 1.0 | 5.0 |") {
		t.Errorf("the table is\n%s", table)
	}
	for commit, rounds := range map[string]int{"abd": 10, "abc": 3} {
		if _, err := ReadParts(path, commit, rounds); err == nil || !strings.Contains(err.Error(), "commit abc with 10 rounds") {
			t.Errorf("for commit %s with %d rounds it gives %v", commit, rounds, err)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadParts(path, "abc", 10); err == nil {
		t.Error("a damaged file is taken")
	}
}
