package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// TokenBody is a token that is to be made.
type TokenBody struct {
	Role    schemas.TokenRole `json:"role" enum:"publisher,reader,client,owner,operator"`
	Tenant  schemas.Tenant    `json:"tenant,omitempty" doc:"Of every role but operator"`
	Session schemas.SessionID `json:"session,omitempty" doc:"Every session of the tenant if empty"`
	For     schemas.Duration  `json:"for" doc:"How long it is valid" example:"24h"`
}

type createTokenIn struct {
	Waiting
	Body TokenBody
}

func (in *createTokenIn) request() (schemas.Request, error) {
	b := in.Body
	return schemas.Request{Tenant: b.Tenant, Token: &schemas.TokenRequest{Role: b.Role, Session: b.Session, For: b.For}}, nil
}

type revokeTokenIn struct {
	Waiting
	Token string `path:"token" doc:"The id, not the token"`
}

func (in *revokeTokenIn) request() (schemas.Request, error) {
	return schemas.Request{Token: &schemas.TokenRequest{ID: in.Token}}, nil
}

// tokens are the operations on tokens.
func (g *Gateway) tokens() {
	const tag = "tokens"
	verb(g, route{verb: "whoami", method: "GET", path: "/whoami", tag: tag, summary: "Say whose the token is"}, none, same[struct{}, schemas.WhoAmI])
	verb(g, route{verb: "token_ls", method: "GET", path: "/tokens", tag: tag, summary: "List tokens"}, (*pageOfTenantIn).request, part[pageOfTenantIn, schemas.TokenView])
	// Generators name the values; "Client" by itself would be the name of their client, too.
	role, names := g.doc.OpenAPI().Components.Schemas.Schema(typeOf[TokenBody](), false, "").Properties["role"], []string{}
	for _, r := range role.Enum {
		name := fmt.Sprint(r)
		names = append(names, "Role"+strings.ToUpper(name[:1])+name[1:])
	}
	role.Extensions = map[string]any{"x-enum-varnames": names}
	verb(g, route{verb: "token_create", method: "POST", path: "/tokens", tag: tag, summary: "Make a token, which is shown this once", status: http.StatusCreated},
		(*createTokenIn).request, same[createTokenIn, schemas.TokenView])
	verb(g, route{verb: "token_revoke", method: "DELETE", path: "/tokens/{token}", tag: tag, summary: "End a token"}, (*revokeTokenIn).request, same[revokeTokenIn, schemas.TokenView])
}
