package shim

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A session that an earlier version started is captured by this one.
func TestWarningsOfAnEarlierShim(t *testing.T) {
	for text, want := range map[string]Warnings{
		`{"warnings":["a","b"]}`: {{Text: "a"}, {Text: "b"}},
		`{"warnings":[{"code":"hook_failed","subject":"x","text":"a","at":"0001-01-01T00:00:00Z"}]}`: {{Code: schemas.WarnHook, Subject: "x", Text: "a"}},
		`{}`: nil,
	} {
		var d Dump
		if err := json.Unmarshal([]byte(text), &d); err != nil || !reflect.DeepEqual(d.Warnings, want) {
			t.Errorf("%s gives %v, %v", text, d.Warnings, err)
		}
	}
	var d Dump
	if err := json.Unmarshal([]byte(`{"warnings":[1]}`), &d); err == nil {
		t.Error("a number is taken for a warning")
	}
}
