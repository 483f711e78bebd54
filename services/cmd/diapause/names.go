package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// answers prints what became of each of the sessions that a command names.
type answers struct {
	asJSON  bool
	several bool // one object a line, in place of one that is indented
}

// print prints an answer as JSON, or has text print it for a person.
func (a answers) print(v any, text func()) error {
	switch {
	case !a.asJSON:
		text()
		return nil
	case a.several:
		return printLine(v)
	}
	return printJSON(v)
}

// printLine prints one value on a line of its own on standard output.
func printLine(v any) error {
	enc := json.NewEncoder(printed)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// forEach does something for each session that is named, also if that fails for one.
// Then its error is that of the first.
func forEach(ctx context.Context, names []string, asJSON bool, do func(name string, a answers) error) error {
	a := answers{asJSON: asJSON, several: len(names) > 1}
	if !a.several {
		return do(names[0], a)
	}
	var first error
	for _, name := range names {
		err := do(name, a)
		if err == nil {
			continue
		}
		report(failure(err), a)
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first != nil {
		return reported{first}
	}
	return nil
}

// outcome prints what became of a session.
func (a answers) outcome(v schemas.View) error {
	return a.print(v, func() { printOutcome(v) })
}
