package api

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// Pages of a list that changes between them have each one that stays, once, and none of another tenant.
func TestTokensComeInPages(t *testing.T) {
	b := newBench(t)
	operator := b.token(schemas.TokenRequest{Role: schemas.TokenOperator}, "")
	var want []string
	for range 5 {
		want = append(want, b.token(schemas.TokenRequest{Role: schemas.TokenOwner}, "acme").ID)
		b.token(schemas.TokenRequest{Role: schemas.TokenOwner}, "other")
	}
	page := func(after string) (got []schemas.TokenView) {
		out, err := b.bear(operator.Token, "token_ls", schemas.Request{Tenant: "acme", Page: &schemas.PageRequest{Limit: 2, After: after}})
		if err != nil || json.Unmarshal(out, &got) != nil {
			t.Fatalf("a page after %q: %s, %v", after, out, err)
		}
		return got
	}
	var got []string
	for after := ""; ; {
		p := page(after)
		if len(p) == 0 {
			break
		}
		for _, v := range p {
			got = append(got, v.ID)
		}
		after = p[len(p)-1].PageKey()
		if len(got) == 2 { // one that was read ends, and one is made, before or after the cursor
			if _, err := b.bear(operator.Token, "token_revoke", schemas.Request{Token: &schemas.TokenRequest{ID: got[1]}}); err != nil {
				t.Fatal(err)
			}
			if made := b.token(schemas.TokenRequest{Role: schemas.TokenReader}, "acme"); made.PageKey() > after {
				want = append(want, made.ID)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %v, want %v", got, want)
	}
}

func TestHistoryComesInPages(t *testing.T) {
	b := newBench(t)
	b.running()
	all, err := b.server.Call(b.ctx, ann, "history", schemas.Request{Name: agent.String()})
	if err != nil {
		t.Fatal(err)
	}
	history := all.([]schemas.TransitionView)
	first, err := b.server.Call(b.ctx, ann, "history", schemas.Request{Name: agent.String(), Page: &schemas.PageRequest{Limit: 1}})
	if err != nil || len(history) < 2 || len(first.([]schemas.TransitionView)) != 1 || first.([]schemas.TransitionView)[0].Version != history[0].Version {
		t.Fatalf("of %d transitions the first page is %+v, %v", len(history), first, err)
	}
	rest, err := b.server.Call(b.ctx, ann, "history", schemas.Request{Name: agent.String(), Page: &schemas.PageRequest{After: history[0].PageKey()}})
	if got := rest.([]schemas.TransitionView); err != nil || len(got) != len(history)-1 || got[0].Version != history[1].Version {
		t.Errorf("the second is %+v, %v", got, err)
	}
}

// A request for a page of what is no list shows no more than one without: of other tenants' sessions nothing.
func TestPageOfNoList(t *testing.T) {
	b := newBench(t)
	b.running()
	owner := b.token(schemas.TokenRequest{Role: schemas.TokenOwner}, agent.Tenant)
	b.server.verbs["show"] = func(context.Context, request) (any, error) {
		return schemas.View{Name: agent.String(), MadeRoom: []string{"other/secret", agent.String()}}, nil
	}
	for _, p := range []*schemas.PageRequest{nil, {}, {Limit: 1}} {
		var v schemas.View
		out, err := b.bear(owner.Token, "show", schemas.Request{Name: agent.String(), Page: p})
		if err != nil || json.Unmarshal(out, &v) != nil || !slices.Equal(v.MadeRoom, []string{agent.String()}) {
			t.Errorf("a request for %+v is answered %s, %v", p, out, err)
		}
	}
}
