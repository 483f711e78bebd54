package schemas

import (
	"testing"
	"time"
)

func TestTokenRequest(t *testing.T) {
	day := Duration(24 * time.Hour)
	for _, c := range []struct {
		r      TokenRequest
		tenant Tenant
		ok     bool
	}{
		{TokenRequest{Role: TokenReader, For: day}, "acme", true},
		{TokenRequest{Role: TokenOwner, Session: "web", For: day}, "acme", true},
		{TokenRequest{Role: TokenOperator, For: MaxToken}, "", true},
		{TokenRequest{Role: TokenOperator, For: day}, "acme", false},
		{TokenRequest{Role: TokenOperator, Session: "web", For: day}, "", false},
		{TokenRequest{Role: TokenOwner, For: day}, "", false},
		{TokenRequest{Role: TokenOwner, For: day}, "a.b", false},
		{TokenRequest{Role: TokenOwner, Session: "*", For: day}, "acme", false},
		{TokenRequest{Role: "root", For: day}, "acme", false},
		{TokenRequest{Role: TokenOwner}, "acme", false},
		{TokenRequest{Role: TokenOwner, For: MaxToken + 1}, "acme", false},
	} {
		if err := c.r.Validate(c.tenant); (err == nil) != c.ok {
			t.Errorf("%+v of tenant %q: %v", c.r, c.tenant, err)
		}
	}
}
