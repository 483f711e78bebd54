package gateway

import (
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
)

// Each list is read in pages in one way: an answer that isn't all has a header Link (RFC 8288) with where the next page is. The gateway
// keeps nothing for that: what a page begins with depends on the key of the last one before alone.

// Linked is a request for a list.
type Linked struct {
	asked url.URL
}

// Resolve implements huma.Resolver.
func (l *Linked) Resolve(ctx huma.Context) []error {
	l.asked = ctx.URL()
	return nil
}

// next gives the header Link of a page that isn't the last: the same request, with another value of a parameter.
func (l *Linked) next(parameter, value string) string {
	if value == "" {
		return ""
	}
	query := l.asked.Query()
	query.Set(parameter, value)
	to := url.URL{Path: l.asked.Path, RawPath: l.asked.RawPath, RawQuery: query.Encode()}
	return "<" + to.String() + `>; rel="next"`
}

// Paging is a part of a list.
type Paging struct {
	Linked
	Limit int    `query:"limit" minimum:"1" maximum:"400" doc:"How many at most. Where there are more, the header Link has the next page. Without limit and after it is all, in one answer"`
	After string `query:"after" maxLength:"300" doc:"Where the page begins: as the header Link of the page before has it"`
}

// page asks the API for one more than the page is to have.
func (p *Paging) page() *schemas.PageRequest {
	switch {
	case p.Limit > 0:
		return &schemas.PageRequest{Limit: p.Limit + 1, After: p.After}
	case p.After != "":
		return &schemas.PageRequest{After: p.After}
	}
	return nil
}

func (p *Paging) paging() *Paging { return p }

// paged is what has Paging in it.
type paged interface{ paging() *Paging }

// part shows a page of a list. An API of before pages answers with all: it is cut here.
func part[I any, T schemas.Paged](in *I, all []T) (*answer[[]T], error) {
	p := any(in).(paged).paging()
	if p.page() == nil {
		return &answer[[]T]{Body: all}, nil
	}
	all = schemas.PageOf(all, *p.page())
	if p.Limit == 0 || len(all) <= p.Limit {
		return &answer[[]T]{Body: all}, nil
	}
	all = all[:p.Limit]
	return &answer[[]T]{Body: all, Link: p.next("after", all[p.Limit-1].PageKey())}, nil
}

type pageIn struct {
	Waiting
	Paging
}

func (in *pageIn) request() (schemas.Request, error) { return schemas.Request{Page: in.page()}, nil }

type pageOfSessionIn struct {
	OfSession
	Waiting
	Paging
}

func (in *pageOfSessionIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Page: in.page()}, nil
}

type pageOfTenantIn struct {
	Waiting
	Paging
	Tenant schemas.Tenant `query:"tenant" doc:"Of this tenant alone"`
}

func (in *pageOfTenantIn) request() (schemas.Request, error) {
	return schemas.Request{Tenant: in.Tenant, Page: in.page()}, nil
}
