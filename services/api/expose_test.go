package api

import (
	"slices"
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestDecideExpose(t *testing.T) {
	tree := schemas.SessionRecord{
		Tenant: "acme", Session: "web", State: schemas.Running, Driver: treeDriver, Network: schemas.NetworkPrivate,
		Exposed: []schemas.ExposedPort{{Port: 80, Access: schemas.AccessToken}, {Port: 90, Access: schemas.AccessPublic}},
	}
	shared, container, gone := tree, tree, tree
	shared.Network, container.Driver, gone.State = schemas.NetworkHost, "docker", schemas.Deleted
	operator, owner := Caller{Identity: "token:o"}, Caller{Identity: "token:w", Tenant: "acme", Role: RoleOwner}
	for _, c := range []struct {
		name   string
		by     Caller
		of     schemas.SessionRecord
		port   uint16
		access schemas.Access
		want   []schemas.ExposedPort // nil if nothing changes
		denied bool
	}{
		{"another port", owner, tree, 85, schemas.AccessPublic, []schemas.ExposedPort{{Port: 80, Access: schemas.AccessToken}, {Port: 85, Access: schemas.AccessPublic}, {Port: 90, Access: schemas.AccessPublic}}, false},
		{"the same port", owner, tree, 80, schemas.AccessPublic, []schemas.ExposedPort{{Port: 80, Access: schemas.AccessPublic}, {Port: 90, Access: schemas.AccessPublic}}, false},
		{"private again", owner, tree, 90, schemas.AccessPrivate, []schemas.ExposedPort{{Port: 80, Access: schemas.AccessToken}}, false},
		{"as it is", owner, tree, 80, schemas.AccessToken, nil, false},
		{"as it is, private", owner, tree, 81, schemas.AccessPrivate, nil, false},
		{"an owner, of the host's network", owner, shared, 22, schemas.AccessPublic, nil, true},
		{"an owner, of the host's network, by token", owner, shared, 22, schemas.AccessToken, nil, true},
		{"an owner, of a container", owner, container, 22, schemas.AccessPublic, nil, true},
		{"an owner takes back what an operator has exposed", owner, shared, 90, schemas.AccessPrivate, []schemas.ExposedPort{{Port: 80, Access: schemas.AccessToken}}, false},
		{"an operator, of the host's network", operator, shared, 90, schemas.AccessToken, []schemas.ExposedPort{{Port: 80, Access: schemas.AccessToken}, {Port: 90, Access: schemas.AccessToken}}, false},
		{"one that is gone", operator, gone, 90, schemas.AccessPrivate, nil, true},
	} {
		tr, err := decideExpose(c.by, c.of, schemas.ExposeRequest{Port: c.port, Access: c.access})
		if (err != nil) != c.denied || (tr.Type == schemas.TExposed) != (c.want != nil) || !slices.Equal(tr.Set.Exposed, c.want) {
			t.Errorf("%s: %+v, %v; want %v", c.name, tr, err, c.want)
		}
	}
}

func TestExposedPortsAreBounded(t *testing.T) {
	r := schemas.SessionRecord{State: schemas.Running, Driver: treeDriver, Network: schemas.NetworkPrivate}
	for port := range uint16(schemas.MaxExposed) {
		r.Exposed = schemas.Expose(r.Exposed, schemas.ExposeRequest{Port: port + 1, Access: schemas.AccessPublic})
	}
	if _, err := decideExpose(Caller{}, r, schemas.ExposeRequest{Port: 1000, Access: schemas.AccessPublic}); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("one more: %v", err)
	}
	if _, err := decideExpose(Caller{}, r, schemas.ExposeRequest{Port: 1, Access: schemas.AccessToken}); err != nil {
		t.Errorf("another access: %v", err)
	}
}

func TestMayReach(t *testing.T) {
	tree := schemas.SessionRecord{Tenant: "acme", Driver: treeDriver, Network: schemas.NetworkPrivate}
	shared := schemas.SessionRecord{Tenant: "acme", Driver: treeDriver, Network: schemas.NetworkHost, Exposed: []schemas.ExposedPort{{Port: 80, Access: schemas.AccessToken}}}
	owner := Caller{Tenant: "acme", Role: RoleOwner}
	for _, c := range []struct {
		name string
		by   Caller
		of   schemas.SessionRecord
		port uint16
		ok   bool
	}{
		{"an owner", owner, tree, 80, true},
		{"an operator", Caller{}, shared, 81, true},
		{"an owner, of the host's network", owner, shared, 81, false},
		{"an owner, of a port that an operator exposed", owner, shared, 80, true},
	} {
		if err := mayReach(c.by, c.of, schemas.ReachRequest{Port: c.port}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
