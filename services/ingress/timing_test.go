package ingress

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// timing is how an answer says how long it waited, with what the session says of itself before.
var timing = regexp.MustCompile(`^diapause-authorise;dur=[0-9.]+, diapause-ask;dur=[0-9.]+, diapause-resume;dur=[0-9.]+, diapause-connect;dur=[0-9.]+, diapause-answer;dur=[0-9.]+$`)

func TestTiming(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(TimingHeader, "db;dur=1") }))
	b := newBrowser(t, serve(t, f.options()))
	first := b.must(http.MethodGet, "http://"+webHost+"/", "", nil).Header.Values(TimingHeader)
	if len(first) != 2 || first[0] != "db;dur=1" || !timing.MatchString(first[1]) {
		t.Errorf("the first request took %q", first)
	}
	if next := b.must(http.MethodGet, "http://"+webHost+"/", "", nil).Header.Values(TimingHeader); len(next) != 1 {
		t.Errorf("the next one took %q", next)
	}
}

// A stage begins where the one before ends, whenever something was heard of the resume.
func TestStagesFollow(t *testing.T) {
	at := func(s int) time.Time { return time.Now().Add(time.Duration(s) * time.Hour) }
	for what, taken := range map[string]time.Time{"nothing": {}, "before it asked": at(-2), "later": at(1), "meanwhile": time.Now().Add(-time.Second)} {
		w := &wake{taken: taken}
		s := times{began: at(-1), admitted: at(-1)}
		s.waited(w)
		if s.taken.Before(s.admitted) || s.taken.After(s.ran) {
			t.Errorf("heard of %s: taken at %s, between %s and %s", what, s.taken, s.admitted, s.ran)
		}
	}
	w := &wake{}
	w.step(schemas.Progress{Kind: schemas.OpSuspend, Stage: "dump"})
	if !w.takenAt().IsZero() {
		t.Error("a step of a suspend counts")
	}
}
