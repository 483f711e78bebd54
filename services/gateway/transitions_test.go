package gateway

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// The log as it stands: of those sessions alone that the token is for, as it is asked for.
func TestTransitions(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_a": acme})
	bearer := "Authorization: Bearer dpt_a"
	at := "/api/v1/transitions"
	if empty := read[Transitions](b, b.do("GET", at, "", bearer)); empty.Transitions == nil || empty.Found != 0 {
		t.Errorf("of an empty log it is %+v", empty)
	}
	for _, name := range []string{"acme/one", "other/two", "acme/three"} {
		b.record(name, b.record(name, statekv.Versioned{}))
	}
	for query, want := range map[string]string{
		"": "three claimed, three run, one claimed, one run", "?session=acme.one": "one claimed, one run", "?type=run": "three run, one run",
		"?actor=worker": "three claimed, one claimed", "?limit=1": "three claimed", "?to=2001-01-01T00:00:00Z": "", "?from=2001-01-01T00:00:00Z&type=run&limit=1": "three run",
	} {
		var got []string
		for _, e := range read[Transitions](b, b.do("GET", at+query, "", bearer)).Transitions {
			got = append(got, strings.TrimPrefix(e.Name, "acme/")+" "+string(e.Transition.Type))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q: %s, want %s", query, text, want)
		}
	}
	for query, status := range map[string]int{
		"?limit=0": http.StatusBadRequest, "?from=yesterday": http.StatusBadRequest, "?format=xml": http.StatusBadRequest, "?other=1": http.StatusBadRequest,
		"?tenant=other": http.StatusForbidden, "?session=other.two": http.StatusForbidden, "?session=*": http.StatusBadRequest,
	} {
		b.refused(query, b.do("GET", at+query, "", bearer), status)
	}
	lines := strings.Split(strings.TrimSpace(readAll(b, b.do("GET", at+"?format=jsonl", "", bearer))), "\n")
	var first LogEvent
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 4 || first.Name != "acme/one" || first.Transition.Type != schemas.TRun {
		t.Errorf("lines: %v %q", err, lines)
	}
	r := b.do("GET", at+"?format=csv", "", bearer)
	rows, err := csv.NewReader(strings.NewReader(readAll(b, r))).ReadAll()
	if err != nil || len(rows) != 5 || rows[0][2] != "session" || rows[1][2] != "acme/one" || !strings.Contains(r.Header.Get("Content-Disposition"), "transitions.csv") {
		t.Errorf("rows: %v %q, %v", err, rows, r.Header)
	}
	if when, err := time.Parse(time.RFC3339Nano, rows[1][1]); err != nil || when.IsZero() {
		t.Errorf("its time is %q: %v", rows[1][1], err)
	}
}

// A spreadsheet takes what a client said for a text.
func TestCellsAreNoFormulas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"=1+1": "'=1+1", "+a": "'+a", "-a": "'-a", "@a": "'@a", "a=b": "a=b", "": ""} {
		if got := cell(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
