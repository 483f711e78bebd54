package gateway

import (
	"context"
	"net/http"
	"reflect"

	"github.com/diapause/diapause/schemas"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

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
