package permissions

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
)

// begin runs a session as the user client.
func (w *parts) begin(name string) {
	w.t.Helper()
	spec, err := json.Marshal(schemas.Spec{Command: []string{"count"}})
	w.must(err)
	w.ask("run", schemas.Request{Name: name, Run: &schemas.RunRequest{Driver: "fake", Program: "count", Spec: spec}})
}

// history gives the transitions of a session that were made by a user, or by none.
func (w *parts) history(name string, actors ...string) (of []schemas.TransitionView) {
	w.t.Helper()
	var all []schemas.TransitionView
	w.must(json.Unmarshal(w.ask("history", schemas.Request{Name: name}), &all))
	for _, t := range all {
		if slices.Contains(actors, t.Actor) {
			of = append(of, t)
		}
	}
	return of
}

// resumedFor tells who asked for the last resume of a session.
func (w *parts) resumedFor(name string) (who string) {
	w.t.Helper()
	var all []schemas.TransitionView
	w.must(json.Unmarshal(w.ask("history", schemas.Request{Name: name}), &all))
	for _, t := range all {
		if t.Type != schemas.TResume {
			continue
		}
		who = schemas.Who(t.Actor, t.Note)
		for _, j := range t.Joined {
			who = schemas.Who(j.Actor, j.Note)
		}
	}
	return who
}

// The record says which user asked, as NATS knows it, and beside that what it says of
// itself.
func TestRecordsSayWhoAsked(t *testing.T) {
	w := runParts(t, newFleet(t))
	w.begin("acme/web")
	if got := w.history("acme/web", "client"); len(got) != 1 || got[0].Type != schemas.TRun || got[0].Note != "client" {
		t.Errorf("the user client made %+v", got)
	}
	// A client of before, which can't prove who it is, and says that it is another.
	nc := w.connect("client")
	m, err := nc.Request(schemas.SubjectAPI+".suspend", []byte(`{"name":"acme/web","actor":"gateway"}`), patience)
	w.must(err)
	w.must(events.ReadAnswer(m, &schemas.View{}))
	if got := w.history("acme/web", api.Unverified); len(got) != 1 || got[0].Type != schemas.TSuspend || got[0].Note != "gateway" {
		t.Errorf("of a client of before the record says %+v", got)
	}
	// The gateway may have it run, and nothing else.
	gateway := w.client("gateway").API()
	w.must(gateway.Ask(t.Context(), "ensure", schemas.Request{Name: "acme/web"}, &schemas.View{}))
	// Asking counts as use, so that the scheduler may be the quicker to resume it.
	if by := w.resumedFor("acme/web"); by != "gateway (gateway)" {
		t.Errorf("it was resumed for %q", by)
	}
	if err := gateway.Ask(t.Context(), "kill", schemas.Request{Name: "acme/web"}, &schemas.View{}); !errors.Is(err, events.ErrDenied) {
		t.Errorf("the gateway may kill: %v", err)
	}
}

// A request can't be made in another's name by having the server answer on the other's
// subject: the answer names the session as a request does.
func TestAnswersAreNoRequests(t *testing.T) {
	w := runParts(t, newFleet(t))
	w.begin("acme/web")
	nc := w.connect("reader")
	for _, to := range []string{schemas.SubjectAs + ".client.rm", schemas.SubjectAPI + ".rm", "$KV." + w.names.Sessions() + ".acme.web"} {
		w.must(nc.PublishRequest(schemas.SubjectAs+".reader.show", to, []byte(`{"name":"acme/web"}`)))
	}
	m, err := nc.Request(schemas.SubjectAs+".reader.show", []byte(`{"name":"acme/web"}`), patience) // answered after them
	w.must(err)
	var v schemas.View
	if w.must(events.ReadAnswer(m, &v)); v.State != schemas.Running || len(w.history("acme/web", "client")) != 1 {
		t.Errorf("the session is %s", v.State)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.refused { // what the API tried to answer with its own rights
		t.Error(err)
	}
}

// A configuration that was written before users had subjects of their own, and before there were tokens,
// goes on working: the record says that nothing proves who asked.
func TestConfigurationOfBefore(t *testing.T) {
	w := runParts(t, fleetWith(t, func(config []byte) []byte {
		lines := bytes.Split(config, []byte("\n"))
		lines = slices.DeleteFunc(lines, func(l []byte) bool {
			return slices.ContainsFunc([]string{schemas.SubjectAs + ".", schemas.SubjectBearer + ".", stream.NamesWith("").Tokens()}, func(s string) bool { return bytes.Contains(l, []byte(s)) })
		})
		return bytes.Join(lines, []byte("\n"))
	}))
	w.begin("acme/web")
	if got := w.history("acme/web", api.Unverified); len(got) != 1 || got[0].Note != "client" {
		t.Errorf("the record says %+v", got)
	}
}
