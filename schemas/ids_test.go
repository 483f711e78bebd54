package schemas_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestValidateNew(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "a-": true, "acme/a-b": true, "-a": false, "-": false, "acme/-a": false, "-acme/a": false} {
		n, err := schemas.ParseName(text)
		if err != nil {
			t.Fatalf("%s can't be named any more: %v", text, err)
		}
		if err := n.ValidateNew(); (err == nil) != want {
			t.Errorf("a new session %s gives %v", text, err)
		}
	}
}
