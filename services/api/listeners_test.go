package api

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// part answers as one that listens, or can't.
func (b *bench) part(name string, states *atomic.Pointer[[]schemas.ListenerView]) {
	b.Helper()
	_, err := b.nc.Subscribe(schemas.SubjectIngress+"."+name, func(m *nats.Msg) {
		data, _ := json.Marshal(*states.Load())
		if err := m.Respond(data); err != nil {
			b.Errorf("answer: %v", err)
		}
	})
	b.must(err)
	b.must(b.nc.Flush())
}

func (b *bench) listen(verb string, name string, r schemas.ListenRequest) (any, error) {
	return b.server.Call(b.ctx, ann, verb, schemas.Request{Name: name, Listen: &r})
}

func TestListenersAreAdded(t *testing.T) {
	b := newBench(t)
	b.running()
	ssh := schemas.ListenRequest{Part: "up", Address: ":2222", Port: 22}
	out, err := b.listen("ingress_add", agent.String(), ssh)
	b.must(err)
	v := out.(schemas.ListenerView)
	if v.State != schemas.ListenerAway || v.Error == "" || v.Name != agent.String() || v.UID == "" || v.By != ann.String() {
		t.Errorf("without a part: %+v", v)
	}
	var states atomic.Pointer[[]schemas.ListenerView]
	states.Store(&[]schemas.ListenerView{{Listener: v.Listener, State: schemas.ListenerOpen}})
	b.part("up", &states)
	ls := func() []schemas.ListenerView {
		t.Helper()
		out, err := b.server.Call(b.ctx, ann, "ingress_ls", schemas.Request{})
		b.must(err)
		return out.([]schemas.ListenerView)
	}
	if all := ls(); len(all) != 1 || all[0].State != schemas.ListenerOpen || all[0].Error != "" {
		t.Errorf("with a part: %+v", all)
	}
	// Of two parts of one name, the one that can't listen is said.
	var others atomic.Pointer[[]schemas.ListenerView]
	others.Store(&[]schemas.ListenerView{{Listener: v.Listener, State: schemas.ListenerFailed, Error: "address already in use"}})
	b.part("up", &others)
	if all := ls(); len(all) != 1 || all[0].State != schemas.ListenerFailed || all[0].Error != "address already in use" {
		t.Errorf("with two parts: %+v", all)
	}
	if _, err := b.listen("ingress_add", agent.String(), ssh); err != nil {
		t.Errorf("added again as it is: %v", err)
	}
	ssh.Port = 23
	if _, err := b.listen("ingress_add", agent.String(), ssh); schemas.ReasonOf(err) != schemas.ReasonExists {
		t.Errorf("another one at its address: %v", err)
	}
	out, err = b.listen("ingress_rm", "", schemas.ListenRequest{Part: "up", Address: ":2222"})
	if l, ok := out.(schemas.Listener); err != nil || !ok || l.Port != 22 {
		t.Errorf("removed: %+v, %v", out, err)
	}
	if _, err := b.listen("ingress_rm", "", schemas.ListenRequest{Part: "up", Address: ":2222"}); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("removed again: %v", err)
	}
	if all := ls(); len(all) != 0 {
		t.Errorf("after that there are %+v", all)
	}
}

func TestListenersThatMakeNoSense(t *testing.T) {
	b := newBench(t)
	b.running()
	good := schemas.ListenRequest{Part: "up", Address: ":2222", Port: 22}
	for _, change := range []func(*schemas.ListenRequest){
		func(r *schemas.ListenRequest) { r.Part = "" }, func(r *schemas.ListenRequest) { r.Part = "a.b" }, func(r *schemas.ListenRequest) { r.Part = ">" },
		func(r *schemas.ListenRequest) { r.Address = "" }, func(r *schemas.ListenRequest) { r.Address = "2222" }, func(r *schemas.ListenRequest) { r.Address = ":0" },
		func(r *schemas.ListenRequest) { r.Address = ":70000" }, func(r *schemas.ListenRequest) { r.Address = "gate.example.com:22" }, func(r *schemas.ListenRequest) { r.Port = 0 },
		func(r *schemas.ListenRequest) { r.Proxy = []schemas.ProxyProtocol{"maybe"} },
	} {
		r := good
		change(&r)
		if _, err := b.listen("ingress_add", agent.String(), r); schemas.CodeOf(err) != schemas.CodeUsage {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := b.listen("ingress_add", "acme/none", good); schemas.CodeOf(err) != schemas.CodeNoSession {
		t.Errorf("a session that there isn't: %v", err)
	}
	if _, err := b.server.Call(b.ctx, ann, "ingress_add", schemas.Request{Name: agent.String()}); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("nothing: %v", err)
	}
}

// A listener is for those alone who aren't confined to a tenant.
func TestListenersAreOfOperators(t *testing.T) {
	b := newBench(t)
	b.running()
	request := schemas.Request{Name: agent.String(), Listen: &schemas.ListenRequest{Part: "up", Address: ":2222", Port: 22}}
	for _, role := range schemas.TokenRoles() {
		tenant := agent.Tenant
		if role == schemas.TokenOperator {
			tenant = ""
		}
		token := b.token(schemas.TokenRequest{Role: role}, tenant).Token
		for _, verb := range []string{"ingress_add", "ingress_ls", "ingress_rm"} {
			_, err := b.bear(token, verb, request)
			if denied := schemas.ReasonOf(err) == schemas.ReasonDenied; denied != (role != schemas.TokenOperator) {
				t.Errorf("%s by %s: %v", verb, role, err)
			}
		}
	}
	if !slices.Contains(schemas.TokenRoles(), schemas.TokenOperator) {
		t.Error("no operator was tried")
	}
}
