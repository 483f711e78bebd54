package shim

import (
	"encoding/json"

	"github.com/diapause/diapause/schemas"
)

// Warnings are the warnings of a capture. A shim of an earlier version sends plain strings.
type Warnings []schemas.Warning

// UnmarshalJSON reads warnings, or strings as their texts.
func (w *Warnings) UnmarshalJSON(data []byte) error {
	var all []schemas.Warning
	err := json.Unmarshal(data, &all)
	if err != nil {
		var texts []string
		if json.Unmarshal(data, &texts) != nil {
			return err
		}
		all = nil
		for _, text := range texts {
			all = append(all, schemas.Warning{Text: text})
		}
	}
	*w = all
	return nil
}
