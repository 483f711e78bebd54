package gateway

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// constants are the values of the constants of a prefix in the source of the errors.
func constants(t *testing.T, prefix string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../schemas/apierror.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, text)
		return true
	})
	slices.Sort(values)
	return values
}

// Every code and reason of the command line has a status, and there is none for others.
func TestStatusesAreWhole(t *testing.T) {
	t.Parallel()
	codes := constants(t, "Code")
	if got := slices.Sorted(maps.Keys(ofCode)); !slices.Equal(got, codes) || len(codes) < 5 {
		t.Errorf("the codes are %v, those with a status %v", codes, got)
	}
	var have []string
	for r, status := range ofReason {
		have = append(have, string(r))
		if status != 0 && (status < 400 || http.StatusText(status) == "") {
			t.Errorf("reason %s has the status %d", r, status)
		}
	}
	slices.Sort(have)
	if reasons := constants(t, "Reason"); !slices.Equal(have, reasons) || len(reasons) < 25 {
		t.Errorf("the reasons are %v, those with a status %v", reasons, have)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		kind   string
		retry  string
	}{
		{schemas.UsageError("wrong"), 400, "urn:diapause:error:usage", ""},
		{&schemas.APIError{Code: schemas.CodeNoSession, Text: "none"}, 404, "urn:diapause:error:no_session", ""},
		{schemas.StateError(schemas.ReasonExists, "taken"), 409, "urn:diapause:error:state:exists", ""},
		{schemas.StateError(schemas.ReasonDeleted, "gone"), 410, "urn:diapause:error:state:deleted", ""},
		{schemas.StateError("a newer one", "new"), 409, "urn:diapause:error:state:a newer one", ""},
		{schemas.FailedError(schemas.ReasonDenied, "no"), 403, "urn:diapause:error:failed:denied", ""},
		{schemas.FailedError(schemas.ReasonStopping, "later"), 503, "urn:diapause:error:failed:stopping", "5"},
		{schemas.FailedError("", "broken"), 500, "urn:diapause:error:failed", ""},
		{&schemas.APIError{Code: "a newer one", Text: "new"}, 500, "urn:diapause:error:a newer one", ""},
		{&schemas.APIError{Code: schemas.CodeTimeout, Text: "late"}, 504, "urn:diapause:error:timeout", ""},
		{fmt.Errorf("show: %w", context.DeadlineExceeded), 504, "urn:diapause:error:timeout", ""},
		{errors.New("something"), 500, "urn:diapause:error:failed", ""},
		{refusal(http.StatusTooManyRequests, "slow", ""), 429, "urn:diapause:error:usage", "5"},
	} {
		p := problem(c.err)
		if p.Status != c.status || p.Type != c.kind || p.Title != http.StatusText(c.status) || p.GetHeaders().Get("Retry-After") != c.retry {
			t.Errorf("%v is %+v, retry after %q", c.err, p, p.GetHeaders().Get("Retry-After"))
		}
	}
}
