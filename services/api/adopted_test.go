package api

import (
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
)

func TestAdoptable(t *testing.T) {
	for name, c := range map[string]struct {
		r    schemas.RunRequest
		fits bool
	}{
		"as adopt asks":       {schemas.RunRequest{Driver: adoptspec.Driver, Existing: schemas.ExistingChosen}, true},
		"another driver":      {schemas.RunRequest{Driver: treeDriver, OnLoss: schemas.LossResume}, true},
		"a command of its":    {schemas.RunRequest{Driver: adoptspec.Driver}, false},
		"one that asks":       {schemas.RunRequest{Driver: adoptspec.Driver, Existing: schemas.ExistingAsks}, false},
		"after a host's loss": {schemas.RunRequest{Driver: adoptspec.Driver, Existing: schemas.ExistingChosen, OnLoss: schemas.LossResume}, false},
	} {
		if err := adoptable(&c.r); (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNotAdopted(t *testing.T) {
	var v statekv.Versioned
	if v.Driver = treeDriver; notAdopted(v, "moved") != nil {
		t.Error("a session of another driver is refused")
	}
	v.Driver, v.Host = adoptspec.Driver, "here"
	if err := notAdopted(v, "moved"); schemas.ReasonOf(err) != schemas.ReasonNoHost {
		t.Errorf("an adopted one: %v", err)
	}
}
