package compat

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/compat/programs"
)

const desktopsPreface = `# Desktops, suspended and resumed

Written by ` + "`make compat`" + `; don't edit. Each desktop was suspended to an encrypted image, its
processes ended, and resumed by HTTP, %d times in a row; after each resume the state in the
second table was compared with what it was, and changed.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

| desktop | version | memory while it runs | captured | stored, first | stored, later | expected | suspend s | frozen s | resume s | first frame s | of %d | limits found |
| --- | --- | --: | --: | --: | --: | --- | --: | --: | --: | --: | --: | --- |
`

const desktopsNotes = `
Sizes are MB. Memory is what all its processes held before the last suspend, as ` + "`diapause show`" + ` has it; while it sleeps
that is 0. Captured is the content of the last image, with the files of the system that it has mapped; stored is what an image
added to the store, compressed and encrypted. Expected is what earlier designs expected a desktop to take while it runs, and
while it sleeps. Suspend is from the request until the record points at the image, and frozen how long the programs stood still. Resume is from the
call of ` + "`POST /sessions/{id}/restore`" + ` to its answer, and first frame from that call until a VNC client had all of the screen. Times are medians.

| desktop | state that was compared after each resume |
| --- | --- |
`

// WriteDesktops makes the document of the desktops of a run; load is what the machine did besides.
func WriteDesktops(ctx context.Context, rows []Row, rounds int, load string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, desktopsPreface, rounds, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx),
		time.Now().UTC().Format(time.RFC3339), load, rounds)
	for _, r := range rows {
		b.WriteString(r.desktopLine())
	}
	b.WriteString(desktopsNotes)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.Program.Name, r.Program.State)
	}
	return b.Bytes()
}

func (r Row) desktopLine() string {
	last := len(r.Cycles) - 1
	expected := r.Program.Desktop.Expected
	if expected == "" {
		expected = "–"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %d | %s |\n", r.Program.Name, r.Version,
		r.megabytes(last, func(c Cycle) int64 { return c.Awake }), r.megabytes(last, func(c Cycle) int64 { return c.Captured }),
		r.megabytes(0, func(c Cycle) int64 { return c.Stored }), r.megabytes(last, func(c Cycle) int64 { return c.Stored }), expected,
		r.seconds(func(c Cycle) time.Duration { return c.Durable }), r.seconds(func(c Cycle) time.Duration { return c.Frozen }),
		r.seconds(func(c Cycle) time.Duration { return c.Resume }), r.seconds(func(c Cycle) time.Duration { return c.Frame }),
		len(r.Cycles), r.limits())
}

// Apart gives the rows of the programs, and those of the desktops.
func Apart(rows []Row) (all, desktops []Row) {
	for _, r := range rows {
		if r.Program.Desktop != nil {
			desktops = append(desktops, r)
		} else {
			all = append(all, r)
		}
	}
	return all, desktops
}

// Everything is what the whole run suspends and resumes.
func Everything() []programs.Program { return append(programs.All(), programs.Desktops()...) }
