package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// Wrong tokens on loopback count for the user who tries them: others have tries of their own.
func TestWrongTokensCountForTheirUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.answers("list", func(asked) (any, *schemas.APIError) {
		return nil, &schemas.APIError{Code: schemas.CodeFailed, Reason: schemas.ReasonNoToken, Text: "no such token"}
	})
	at := b.serve(b.gate)
	r, err := http.NewRequestWithContext(t.Context(), "GET", at+"/api/v1/sessions", nil)
	b.must(err)
	r.Header.Set("Authorization", "Bearer dpt_guess")
	answer, err := new(http.Client).Do(r)
	b.must(err)
	answer.Body.Close()
	b.gate.rates.mu.Lock()
	defer b.gate.rates.mu.Unlock()
	if _, mine := b.gate.rates.wrong[sha256.Sum256(fmt.Append(nil, "uid ", os.Getuid()))]; !mine || len(b.gate.rates.wrong) != 1 {
		t.Errorf("status %d; it counts for %d, and for this user: %v", answer.StatusCode, len(b.gate.rates.wrong), mine)
	}
}

func TestWhose(t *testing.T) {
	t.Parallel()
	ctx := context.WithValue(t.Context(), userKey{}, "uid 7")
	for address, want := range map[string]string{"127.0.0.1": "uid 7", "::1": "uid 7", "::ffff:127.0.0.1": "uid 7", "10.0.0.7": "10.0.0.7", "": ""} {
		if got := whose(ctx, address); got != want {
			t.Errorf("%q counts for %q, want %q", address, got, want)
		}
		if got := whose(t.Context(), address); got != address {
			t.Errorf("%q of a user that isn't known counts for %q", address, got)
		}
	}
}
