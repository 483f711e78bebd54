package gateway

import (
	"github.com/diapause/diapause/schemas"
)

type hostIn struct {
	Waiting
	Host schemas.HostID `path:"host"`
}

func (in *hostIn) request() (schemas.Request, error) { return schemas.Request{Host: in.Host}, nil }

type drainIn struct {
	Waiting
	Host  schemas.HostID `path:"host"`
	Force bool           `query:"force" doc:"Also what is in use"`
}

func (in *drainIn) request() (schemas.Request, error) {
	return schemas.Request{Host: in.Host, Force: in.Force}, nil
}

// OfKeys is whose keys.
type OfKeys struct {
	Waiting
	Tenant schemas.Tenant `query:"tenant" doc:"Every tenant's if it isn't given"`
}

func (in *OfKeys) request() (schemas.Request, error) { return schemas.Request{Tenant: in.Tenant}, nil }

type keyIn struct {
	OfKeys
	Body *schemas.KeyRequest
}

func (in *keyIn) request() (schemas.Request, error) {
	r := schemas.Request{Tenant: in.Tenant, Key: in.Body}
	if r.Key == nil {
		r.Key = &schemas.KeyRequest{}
	}
	return r, nil
}

type storeIn struct {
	Waiting
	Body *schemas.StoreRequest
}

func (in *storeIn) request() (schemas.Request, error) { return schemas.Request{Store: in.Body}, nil }

// fleet are the operations on hosts, keys and the store. They are for operators.
func (g *Gateway) fleet() {
	const hosts, one = "hosts", "/hosts/{host}"
	verb(g, route{verb: "host_ls", method: "GET", path: "/hosts", tag: hosts, summary: "List hosts"}, (*pageIn).request, part[pageIn, schemas.HostView])
	verb(g, route{verb: "host_show", method: "GET", path: one, tag: hosts, summary: "Show a host"}, (*hostIn).request, same[hostIn, schemas.HostView])
	verb(g, route{verb: "host_cordon", method: "POST", path: one + "/cordon", tag: hosts, summary: "Have it take no sessions"}, (*hostIn).request, same[hostIn, schemas.HostView])
	verb(g, route{verb: "host_uncordon", method: "POST", path: one + "/uncordon", tag: hosts, summary: "Have it take sessions again"}, (*hostIn).request, same[hostIn, schemas.HostView])
	verb(g, route{verb: "host_drain", method: "POST", path: one + "/drain", tag: hosts, summary: "Have what runs there suspended or moved"}, (*drainIn).request, same[drainIn, schemas.HostView])
	verb(g, route{verb: "host_rm", method: "DELETE", path: one, tag: hosts, summary: "Forget a host that is gone for good"}, (*hostIn).request, same[hostIn, schemas.HostView])

	verb(g, route{verb: "key_ls", method: "GET", path: "/keys", tag: "keys", summary: "List readers and writers of images"}, (*OfKeys).request, same[OfKeys, schemas.KeysView])
	for _, r := range []route{
		{verb: "key_add", path: "/keys/add", summary: "Add a reader"},
		{verb: "key_rm", path: "/keys/remove", summary: "Remove a reader"},
		{verb: "key_rotate", path: "/keys/rotate", summary: "Give the next images new keys"},
		{verb: "key_trust", path: "/keys/trust", summary: "Let a host sign images with a key"},
		{verb: "key_revoke", path: "/keys/revoke", summary: "Refuse what a host signs from now on"},
	} {
		r.method, r.tag = "POST", "keys"
		verb(g, r, (*keyIn).request, same[keyIn, schemas.KeysView])
	}

	const store = "store"
	verb(g, route{verb: "store_stats", method: "GET", path: "/store/stats", tag: store, summary: "Say what the store holds"}, (*auditIn).request, same[auditIn, schemas.StoreStats])
	verb(g, route{verb: "store_check", method: "POST", path: "/store/check", tag: store, summary: "Look for what is wrong in the store"}, (*storeIn).request, same[storeIn, schemas.StoreCheck])
	verb(g, route{verb: "store_prune", method: "POST", path: "/store/prune", tag: store, summary: "Delete what the retention policy doesn't keep"}, (*storeIn).request, same[storeIn, schemas.StorePrune])
}
