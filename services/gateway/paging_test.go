package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// nextOf is the path of the next page; "" if there is none.
func nextOf(r *http.Response) string {
	to, _, found := strings.Cut(strings.TrimPrefix(r.Header.Get("Link"), "<"), `>; rel="next"`)
	if !found {
		return ""
	}
	return to
}

// pages reads a list page by page, and gives how many elements each has and all of them.
func (b *bench) pages(path string) (sizes []int, all []string) {
	b.Helper()
	for path != "" {
		r := b.do("GET", path, "")
		var page []json.RawMessage
		data, err := io.ReadAll(r.Body)
		b.must(err)
		if err := json.Unmarshal(data, &page); err != nil || r.StatusCode != http.StatusOK {
			b.Fatalf("%s: status %d, %s", path, r.StatusCode, data)
		}
		sizes = append(sizes, len(page))
		for _, v := range page {
			all = append(all, string(v))
		}
		path = nextOf(r)
	}
	return sizes, all
}

// answersPages answers a verb as the API does, or as one of before, which knows no pages.
func answersPages[T schemas.Paged](b *bench, verb string, all []T, knows bool) {
	b.answers(verb, func(a asked) (any, *schemas.APIError) {
		if a.Page == nil || !knows {
			return all, nil
		}
		return schemas.PageOf(all, *a.Page), nil
	})
}

// Every list is read in pages in the same way, each element once.
func TestEveryListHasPages(t *testing.T) {
	t.Parallel()
	for _, knows := range []bool{true, false} {
		b := newBench(t, nil)
		at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
		var history []schemas.TransitionView
		var shots []schemas.SnapshotView
		var tokens []schemas.TokenView
		var hosts []schemas.HostView
		var templates []schemas.TemplateView
		var policies []schemas.PolicyView
		var listeners []schemas.ListenerView
		for i := range 12 { // two digits, and not in the order of the keys
			n := (i*7 + 1) % 12
			history = append(history, schemas.TransitionView{Version: uint64(n)})
			shots = append(shots, schemas.SnapshotView{ID: fmt.Sprintf("%d-%d", n/3, n)})
			tokens = append(tokens, schemas.TokenView{ID: fmt.Sprintf("t%d", n), Created: at.Add(time.Duration(n/3) * time.Second)})
			hosts = append(hosts, schemas.HostView{Host: schemas.Host{Host: schemas.HostID(fmt.Sprintf("h %d&%%", n))}})
			templates = append(templates, schemas.TemplateView{Tenant: "acme", Name: fmt.Sprintf("acme/t%d", n)})
			policies = append(policies, schemas.PolicyView{Scope: schemas.PolicyScope(fmt.Sprintf("class:c%d", n))})
			listeners = append(listeners, schemas.ListenerView{Listener: schemas.Listener{Part: "up", Address: fmt.Sprintf(":%d", n)}})
		}
		answersPages(b, "history", history, knows)
		answersPages(b, "snapshots", shots, knows)
		answersPages(b, "token_ls", tokens, knows)
		answersPages(b, "host_ls", hosts, knows)
		answersPages(b, "template_ls", templates, knows)
		answersPages(b, "policy_get", policies, knows)
		answersPages(b, "ingress_ls", listeners, knows)
		for _, path := range []string{"/sessions/acme.web/history", "/sessions/acme.web/snapshots", "/tokens?tenant=acme", "/hosts", "/templates?tenant=acme", "/policies", "/listeners?tenant=acme"} {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			path = prefix + path
			sizes, got := b.pages(path + join + "limit=5")
			if !slices.Equal(sizes, []int{5, 5, 2}) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 12 {
				t.Errorf("%s: pages of %v, with %v", path, sizes, got)
			}
			if sizes, got := b.pages(path + join + "limit=12"); !slices.Equal(sizes, []int{12}) || len(got) != 12 {
				t.Errorf("%s: one page is %v", path, sizes)
			}
			if sizes, _ := b.pages(path); !slices.Equal(sizes, []int{12}) {
				t.Errorf("%s: all are %v", path, sizes)
			}
			b.refused(path, b.do("GET", path+join+"limit=0", ""), http.StatusBadRequest)
		}
	}
}

// The link of a page keeps what was asked for, and a page after one that has gone begins where that was.
func TestLinksOfPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	hosts := []schemas.HostView{{Host: schemas.Host{Host: "c"}}, {Host: schemas.Host{Host: "a"}}, {Host: schemas.Host{Host: "b"}}, {Host: schemas.Host{Host: "d"}}}
	answersPages(b, "host_ls", hosts, true)
	r := b.do("GET", prefix+"/hosts?limit=2&wait=20s", "")
	if got := r.Header.Get("Link"); got != `</api/v1/hosts?after=b&limit=2&wait=20s>; rel="next"` {
		t.Errorf("the link is %s", got)
	}
	next := nextOf(r)
	c := newBench(t, nil) // another gateway, of an API that has lost b
	answersPages(c, "host_ls", append(hosts[:2:2], hosts[3]), true)
	got := read[[]schemas.HostView](c, c.do("GET", next, ""))
	if len(got) != 2 || got[0].Host.Host != "c" || got[1].Host.Host != "d" {
		t.Errorf("the second page is %+v", got)
	}
	b.recorded("list", []schemas.View{{Name: "acme/a"}, {Name: "acme/b"}})
	if got := nextOf(b.do("GET", prefix+"/sessions?limit=1&state=running", "")); got != "/api/v1/sessions?after=acme.a&limit=1&state=running" {
		t.Errorf("the next sessions are at %s", got)
	}
}
