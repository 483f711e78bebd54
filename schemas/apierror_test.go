package schemas

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestAPIErrorOnTheWire(t *testing.T) {
	e := StateError(ReasonExists, "session %s exists", "web").WithHint("remove it with %s", "rm")
	e.Session = "acme/web"
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"code":"state","reason":"exists","error":"session web exists","hint":"remove it with rm","session":"acme/web"}`
	if string(data) != want {
		t.Errorf("written as %s, want %s", data, want)
	}
	var back APIError
	if err := json.Unmarshal(data, &back); err != nil || back != *e {
		t.Errorf("read back as %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"code":"usage","text":"old"}`), &back); err != nil || back != (APIError{Code: CodeUsage, Text: "old"}) {
		t.Errorf("an old one is read as %+v, %v", back, err)
	}
}

func TestCodesOfErrors(t *testing.T) {
	err := fmt.Errorf("resume web: %w", StateError(ReasonQuota, "no place"))
	if CodeOf(err) != CodeState || ReasonOf(err) != ReasonQuota {
		t.Errorf("%v has the code %q and the reason %q", err, CodeOf(err), ReasonOf(err))
	}
	if plain := fmt.Errorf("plain"); CodeOf(plain) != "" || ReasonOf(plain) != "" {
		t.Error("an error of another kind has a code")
	}
}
