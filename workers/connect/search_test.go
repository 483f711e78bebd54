package connect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// searched is a Searcher that says which sessions it is given.
type searched struct{ names []string }

func (s *searched) Search(_ context.Context, _ attach.Search, of []attach.Searched, found func(attach.Found) error, _ func(string) error) error {
	for _, one := range of {
		s.names = append(s.names, one.Name)
		if err := found(attach.Found{Session: one.Name, Line: "a line"}); err != nil {
			return err
		}
	}
	return nil
}

func (s *searched) Rebuild(_ context.Context, n schemas.Name) error {
	s.names = append(s.names, n.String())
	return nil
}

// TestSearchKeepsToItsScope: a list with a session of someone else is refused as a whole, before a recording is opened.
func TestSearchKeepsToItsScope(t *testing.T) {
	for _, c := range []struct {
		scope   *attach.Scope
		names   string
		refused bool
	}{
		{nil, "acme/a b/x work", false},
		{&attach.Scope{}, "acme/a b/x", false},
		{&attach.Scope{Tenant: "acme"}, "acme/a acme/b", false},
		{&attach.Scope{Tenant: "acme"}, "acme/a b/x", true},
		{&attach.Scope{Tenant: "acme"}, "a", true},
		{&attach.Scope{Tenant: "default"}, "a default/b", false},
		{&attach.Scope{Tenant: "acme", Session: "a"}, "acme/a", false},
		{&attach.Scope{Tenant: "acme", Session: "a"}, "acme/b", true},
		{&attach.Scope{Tenant: "acme"}, "../b", true},
	} {
		for _, rebuild := range []bool{false, true} {
			s := &searched{}
			server := &Server{Options: Options{Searcher: s}}
			ours, theirs := pair(t)
			go func() {
				defer theirs.Close()
				if err := server.connect(t.Context(), theirs, attach.Hello{Search: true}, nil); err != nil {
					_ = attach.WriteError(theirs, err.Error())
				}
			}()
			var of []attach.Searched
			for name := range strings.FieldsSeq(c.names) {
				of = append(of, attach.Searched{Name: name})
			}
			var got []string
			err := attach.FetchFound(ours, attach.Search{Words: []string{"line"}, Limit: 10, Rebuild: rebuild, Scope: c.scope}, of, io.Discard, func(f attach.Found) error {
				got = append(got, f.Session)
				return nil
			})
			what := fmt.Sprintf("%q of %+v, rebuild %v", c.names, c.scope, rebuild)
			if (err != nil) != c.refused || c.refused && (len(got) > 0 || len(s.names) > 0) {
				t.Errorf("%s: %v, of %v it found %v", what, err, s.names, got)
			}
			if !c.refused && !rebuild && !slices.Equal(got, strings.Fields(c.names)) {
				t.Errorf("%s: it found %v", what, got)
			}
		}
	}
}
