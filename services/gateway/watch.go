package gateway

import (
	"context"
	"net/http"
	"reflect"

	"github.com/diapause/diapause/schemas"
)

const eventStream = "text/event-stream"

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// watching takes the requests for a list that is to be watched; the others go on to the list.
func (g *Gateway) watching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == prefix+"/sessions" && r.URL.Query().Get("watch") == "true" {
			g.watch(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// watch answers with each session as it is, and again when it has changed.
func (g *Gateway) watch(w http.ResponseWriter, r *http.Request) {
	me, ok := g.who(w, r)
	if !ok {
		return
	}
	tenant, session, p := scope(me, r.URL.Query().Get("tenant"), "")
	if p != nil {
		p.write(w)
		return
	}
	g.stream(w, r, me, event{}, func(ctx context.Context, send func(event) error) error {
		ctx, stop := context.WithCancel(bearing(ctx, r))
		defer stop()
		return g.client.WatchSessions(ctx, tenant+"/"+session, func(v schemas.View) {
			if send(event{kind: "session", data: shown(v)}) != nil {
				stop()
			}
		})
	})
}
