package compat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/diapause/diapause/e2e/compat/programs"
)

// Parts are rows of several runs of one commit with as many rounds: together they make a table.
type Parts struct {
	Commit string   `json:"commit"`
	Rounds int      `json:"rounds"`
	Loads  []string `json:"loads"` // before each of the runs
	Found  []part   `json:"rows"`
}

// part is a row as it is kept.
type part struct {
	Program string  `json:"program"`
	Version string  `json:"version"`
	Cycles  []Cycle `json:"cycles"`
	Error   string  `json:"error,omitempty"`
}

// ReadParts reads what earlier runs have left in a file; it may be missing. Rows of another
// commit, or with another number of rounds, are an error: they belong to another table.
func ReadParts(path, commit string, rounds int) (*Parts, error) {
	p := &Parts{Commit: commit, Rounds: rounds}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read earlier rows: %w", err)
	}
	var was Parts
	if err := json.Unmarshal(b, &was); err != nil {
		return nil, fmt.Errorf("read earlier rows: %s: %w", path, err)
	}
	if was.Commit != commit || was.Rounds != rounds {
		return nil, fmt.Errorf("%s: rows of commit %s with %d rounds, want %s, %d", path, was.Commit, was.Rounds, commit, rounds)
	}
	return &was, nil
}

// Add takes the rows of a run, in the place of earlier ones of the same programs, and the load
// before it.
func (p *Parts) Add(rows []Row, load string) {
	p.Loads = append(p.Loads, load)
	for _, r := range rows {
		p.Found = slices.DeleteFunc(p.Found, func(was part) bool { return was.Program == r.Program.Name })
		kept := part{Program: r.Program.Name, Version: r.Version, Cycles: r.Cycles}
		if r.Err != nil {
			kept.Error = r.Err.Error()
		}
		p.Found = append(p.Found, kept)
	}
}

// Rows gives the rows in the order of all programs, and the names of those that have none yet.
func (p *Parts) Rows(all []programs.Program) (rows []Row, missing []string) {
	for _, program := range all {
		i := slices.IndexFunc(p.Found, func(f part) bool { return f.Program == program.Name })
		if i < 0 {
			missing = append(missing, program.Name)
			continue
		}
		r := Row{Program: program, Version: p.Found[i].Version, Cycles: p.Found[i].Cycles}
		if text := p.Found[i].Error; text != "" {
			r.Err = errors.New(text)
		}
		rows = append(rows, r)
	}
	return rows, missing
}

// Load is what the machine did before the runs.
func (p *Parts) Load() string { return strings.Join(p.Loads, "; ") }

// Save replaces the file.
func (p *Parts) Save(path string) error {
	b, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("keep the rows: %w", err)
	}
	return nil
}
