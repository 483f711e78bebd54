package schemas

import (
	"errors"
	"fmt"
	"testing"
)

func TestHintOf(t *testing.T) {
	cause := errors.New("the port is taken")
	err := fmt.Errorf("start: %w", WithHint(cause, "choose another with %s", "--listen"))
	if HintOf(err) != "choose another with --listen" || err.Error() != "start: the port is taken" || !errors.Is(err, cause) {
		t.Errorf("%v, hint %q", err, HintOf(err))
	}
	if got := HintOf(fmt.Errorf("ask: %w", UsageError("no name").WithHint("name it"))); got != "name it" {
		t.Errorf("the hint of an answer is %q", got)
	}
	if HintOf(cause) != "" || HintOf(nil) != "" {
		t.Error("an error without a hint has one")
	}
}
