package api

import (
	"encoding/json"

	"github.com/diapause/diapause/schemas"
)

// The bounds of what a caller writes into a session's record, which every list and every host reads: in bytes, but
// for those that count. The rest of a spec is sealed, and bounded as a message.
const (
	maxProgram = 1024 // as a path may be long
	maxWord    = 256  // of a label's name or value, of a network, of a driver
	maxAddress = 64   // of allow_out, publish
	maxEntries = 100  // of a list
)

// bounded refuses a request to run whose record would be too large.
func bounded(r *schemas.RunRequest) error {
	if err := word("program", r.Program, maxProgram); err != nil {
		return err
	}
	if err := word("driver", string(r.Driver), maxWord); err != nil {
		return err
	}
	if err := boundedPlacement(r.Placement); err != nil {
		return err
	}
	var spec schemas.Spec
	if json.Unmarshal(r.Spec, &spec) != nil {
		return nil // what can't be read no host runs, and none of it is written
	}
	if err := word("network", spec.Network, maxWord); err != nil {
		return err
	}
	if ref, ok := spec.RootImage(); ok {
		if err := word("root", ref, maxProgram); err != nil {
			return err
		}
	}
	if err := list("cap_add", spec.CapAdd, maxAddress); err != nil {
		return err
	}
	if err := list("allow_out", spec.AllowOut, maxAddress); err != nil {
		return err
	}
	return list("publish", spec.Publish, maxAddress)
}

func boundedPlacement(p *schemas.Placement) error {
	if p == nil {
		return nil
	}
	if err := many("placement.labels", len(p.Labels)); err != nil {
		return err
	}
	for k, v := range p.Labels {
		if err := word("placement.labels", k, maxWord); err != nil {
			return err
		}
		if err := word("placement.labels", v, maxWord); err != nil {
			return err
		}
	}
	return many("placement.apart", len(p.Apart)) // each is a name
}

func word(field, text string, most int) error {
	if len(text) > most {
		return schemas.UsageError("%s: a text of %d bytes, at most %d are taken", field, len(text), most)
	}
	return nil
}

func list(field string, all []string, most int) error {
	for _, text := range all {
		if err := word(field, text, most); err != nil {
			return err
		}
	}
	return many(field, len(all))
}

func many(field string, n int) error {
	if n > maxEntries {
		return schemas.UsageError("%s: %d entries, at most %d are taken", field, n, maxEntries)
	}
	return nil
}
