package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestListenersOverHTTP(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	asks := make(chan schemas.Request, 1)
	b.answers("ingress_add", func(a asked) (any, *schemas.APIError) {
		asks <- a.Request
		return schemas.ListenerView{Listener: schemas.Listener{Part: a.Listen.Part, Address: a.Listen.Address, Name: a.Name, Port: a.Listen.Port}, State: schemas.ListenerFailed, Error: "in use"}, nil
	})
	b.answers("ingress_rm", func(a asked) (any, *schemas.APIError) {
		asks <- a.Request
		return schemas.Listener{Part: a.Listen.Part, Address: a.Listen.Address}, nil
	})
	b.answers("ingress_ls", func(asked) (any, *schemas.APIError) {
		return []schemas.ListenerView{{State: schemas.ListenerAway}}, nil
	})
	const path = "/api/v1/listeners"
	r := b.do("POST", path, `{"session":"acme/web","port":22,"listen":":2222","proxy_protocol":["accept","send"]}`)
	if v := read[schemas.ListenerView](b, r); r.StatusCode != http.StatusCreated || v.State != schemas.ListenerFailed || v.Error != "in use" {
		t.Errorf("added: %d, %+v", r.StatusCode, v)
	}
	if a := <-asks; a.Name != "acme/web" || a.Listen.Part != schemas.DefaultPart || a.Listen.Address != ":2222" || a.Listen.Port != 22 || !slices.Equal(a.Listen.Proxy, schemas.ProxyProtocols()) {
		t.Errorf("the API is asked for %+v", a)
	}
	if r := b.do("GET", path, ""); r.StatusCode != http.StatusOK || len(read[[]schemas.ListenerView](b, r)) != 1 {
		t.Errorf("listed: %d", r.StatusCode)
	}
	for _, address := range []string{":2222", "10.0.0.7:22", "[::1]:22"} {
		if r := b.do("DELETE", path+"/edge/"+url.PathEscape(address), ""); r.StatusCode != http.StatusOK {
			t.Errorf("removed: %d", r.StatusCode)
		}
		if a := <-asks; a.Listen.Part != "edge" || a.Listen.Address != address {
			t.Errorf("the API is asked for %+v", a.Listen)
		}
	}
	for _, wrong := range []string{`{"session":"a","port":0,"listen":":1"}`, `{"session":"a","port":70000,"listen":":1"}`, `{"session":"a","port":1}`, `{"session":"a","port":1,"listen":":1","proxy_protocol":["maybe"]}`} {
		b.refused(wrong, b.do("POST", path, wrong), http.StatusBadRequest)
	}
}
