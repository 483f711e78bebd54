package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// token has the server make a token.
func (b *bench) token(r schemas.TokenRequest, tenant schemas.Tenant) schemas.TokenView {
	b.Helper()
	r.For = schemas.MaxToken
	out, err := b.server.Call(b.ctx, ann, "token_create", schemas.Request{Tenant: tenant, Token: &r})
	b.must(err)
	return out.(schemas.TokenView)
}

// bear asks as the bearer of a token.
func (b *bench) bear(token, verb string, req schemas.Request) (json.RawMessage, error) {
	b.Helper()
	var out json.RawMessage
	err := events.New(b.nc, events.Options{User: "gateway"}).API().Ask(events.WithToken(b.ctx, token), verb, req, &out)
	return out, err
}

func TestBearers(t *testing.T) {
	b := newBench(t)
	b.running()
	owner := b.token(schemas.TokenRequest{Role: schemas.TokenOwner}, agent.Tenant)
	other := b.token(schemas.TokenRequest{Role: schemas.TokenOwner}, "other")
	operator := b.token(schemas.TokenRequest{Role: schemas.TokenOperator}, "")

	out, err := b.bear(owner.Token, "whoami", schemas.Request{})
	var me schemas.WhoAmI
	if json.Unmarshal(out, &me) != nil || err != nil || me.Actor != "token:"+owner.ID || me.Role != schemas.TokenOwner || me.Tenant != agent.Tenant || !me.Expires.Equal(owner.Expires) {
		t.Errorf("whoami: %s, %v", out, err)
	}
	if _, err := b.bear(owner.Token, "history", schemas.Request{Name: agent.String()}); err != nil {
		t.Errorf("a session of its tenant: %v", err)
	}
	if _, err := b.bear(other.Token, "history", schemas.Request{Name: agent.String()}); schemas.ReasonOf(err) != schemas.ReasonDenied {
		t.Errorf("a session of another tenant: %v", err)
	}
	if _, err := b.bear(owner.Token, "token_ls", schemas.Request{}); schemas.ReasonOf(err) != schemas.ReasonDenied {
		t.Errorf("an owner lists tokens: %v", err)
	}
	listed, err := b.bear(operator.Token, "token_ls", schemas.Request{})
	if err != nil || strings.Contains(string(listed), schemas.TokenPrefix) || strings.Count(string(listed), `"id"`) != 3 {
		t.Errorf("an operator lists tokens: %s, %v", listed, err)
	}
	if _, err := b.bear(operator.Token, "token_revoke", schemas.Request{Token: &schemas.TokenRequest{ID: owner.Token}}); err == nil || strings.Contains(err.Error(), owner.Token[:len(schemas.TokenPrefix)+8]) {
		t.Errorf("a token in the place of its id: %v", err)
	}
	if _, err := b.bear(operator.Token, "token_revoke", schemas.Request{Token: &schemas.TokenRequest{ID: owner.ID}}); err != nil {
		t.Errorf("an operator revokes a token: %v", err)
	}
	for _, none := range []string{owner.Token, "", "dpt_", owner.ID} {
		if _, err := b.bear(none, "whoami", schemas.Request{}); schemas.ReasonOf(err) != schemas.ReasonNoToken {
			t.Errorf("the bearer of %q: %v", none, err)
		}
	}
	if _, err := b.bear(operator.Token, "token_revoke", schemas.Request{Token: &schemas.TokenRequest{ID: "none"}}); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("revoke a token that there isn't: %v", err)
	}
	if _, err := b.bear(operator.Token, "token_create", schemas.Request{Token: &schemas.TokenRequest{Role: "king", For: 1}}); schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("make a token of a role that there isn't: %v", err)
	}
}

// What a message says of a token counts on the subject of bearers alone.
func TestTokenOfANATSUserIsIgnored(t *testing.T) {
	b := newBench(t)
	operator := b.token(schemas.TokenRequest{Role: schemas.TokenOperator}, "")
	m := &nats.Msg{Subject: schemas.SubjectAs + ".reader.whoami", Header: nats.Header{schemas.HeaderToken: {operator.Token}}, Data: []byte(`{}`)}
	got, err := b.nc.RequestMsgWithContext(b.ctx, m)
	b.must(err)
	var me schemas.WhoAmI
	if json.Unmarshal(got.Data, &me) != nil || me.Actor != "reader" || me.Role != "" {
		t.Errorf("whoami: %s", got.Data)
	}
	m = &nats.Msg{Subject: schemas.SubjectBearer + ".list", Data: []byte(`{}`)}
	got, err = b.nc.RequestMsgWithContext(b.ctx, m)
	b.must(err)
	if schemas.ReasonOf(events.ReadAnswer(got, nil)) != schemas.ReasonNoToken {
		t.Errorf("a bearer of nothing is answered %s", got.Data)
	}
}

func TestActivityIsChecked(t *testing.T) {
	b := newBench(t)
	b.running()
	for _, c := range []struct {
		a    *schemas.ActivityRequest
		code string
	}{
		{nil, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindInput}, ""},
		{&schemas.ActivityRequest{Kind: schemas.KindHold, Key: "mine", TTL: schemas.Duration(schemas.MaxLease)}, ""},
		{&schemas.ActivityRequest{Kind: schemas.KindHold, Key: "mine", Released: true}, ""},
		{&schemas.ActivityRequest{Kind: schemas.KindHold, Key: "mine", TTL: schemas.Duration(schemas.MaxLease) + 1}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindHold, Key: "mine", TTL: -1}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindHold}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindHold, Key: "a.b"}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindHold, Key: "mine.~inside"}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindInput, Key: "~inside"}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: "input.~edge"}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: "*"}, schemas.CodeUsage},
		{&schemas.ActivityRequest{Kind: schemas.KindAgent, Key: "run_start"}, ""},
	} {
		_, err := b.server.Call(b.ctx, ann, "activity", schemas.Request{Name: agent.String(), Activity: c.a})
		if schemas.CodeOf(err) != c.code {
			t.Errorf("%+v: %v, want the code %q", c.a, err, c.code)
		}
	}
	publisher := Caller{Identity: "token:p", Tenant: agent.Tenant, Role: RoleReport}
	out, err := b.server.Call(b.ctx, publisher, "activity", schemas.Request{Name: agent.String(), Activity: &schemas.ActivityRequest{Kind: schemas.KindInput}})
	if v, ok := out.(schemas.View); err != nil || !ok || v.Name != agent.String() || v.State != "" || v.Host != "" || v.UID != "" {
		t.Errorf("a caller who may not look is answered %+v, %v", out, err)
	}
	if _, err := b.server.Call(b.ctx, ann, "activity", schemas.Request{Name: "acme/none", Activity: &schemas.ActivityRequest{Kind: schemas.KindInput}}); schemas.CodeOf(err) != schemas.CodeNoSession {
		t.Errorf("of a session that there isn't: %v", err)
	}
}
