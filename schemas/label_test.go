package schemas

import (
	"maps"
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		refuse string
	}{
		{nil, ""},
		{map[string]string{"team": "web", "example.com/a-b_c": "", "1": "Größe 3 = x"}, ""},
		{map[string]string{"": "x"}, "letters"},
		{map[string]string{"-a": "x"}, "letters"},
		{map[string]string{"a-": "x"}, "letters"}, // it would be a removal on the command line
		{map[string]string{"a b": "x"}, "letters"},
		{map[string]string{"a=b": "x"}, "letters"},
		{map[string]string{strings.Repeat("k", MaxLabelKey+1): "x"}, "letters"},
		{map[string]string{"a": "\x1b[2J"}, "bytes"},
		{map[string]string{"a": "\xff"}, "bytes"},
		{map[string]string{"a": strings.Repeat("v", MaxLabelValue+1)}, "bytes"},
	} {
		err := ValidateLabels(c.labels)
		if (err != nil) != (c.refuse != "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%q: %v, want %q", c.labels, err, c.refuse)
		}
	}
	if err := (LabelRequest{Labels: map[string]string{"a": "b"}, Remove: []string{"a"}}).Validate(); err == nil {
		t.Error("a label was set and removed at once")
	}
}

func TestRelabel(t *testing.T) {
	old := map[string]string{"a": "1", "b": "2"}
	got := Relabel(old, LabelRequest{Labels: map[string]string{"c": "3", "a": "4"}, Remove: []string{"b", "z"}})
	if !maps.Equal(got, map[string]string{"a": "4", "c": "3"}) || len(old) != 2 || old["a"] != "1" {
		t.Errorf("%v of %v", got, old)
	}
	if got := Relabel(old, LabelRequest{Remove: []string{"a", "b"}}); got != nil {
		t.Errorf("%v is left", got)
	}
	for want, is := range map[string]bool{"a": true, "a=1": true, "a=": false, "a=2": false, "z": false, "b=2": true} {
		if Labelled(old, []string{"a", want}) != is {
			t.Errorf("%s: want %v", want, is)
		}
	}
}
