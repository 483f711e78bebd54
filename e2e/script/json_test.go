package script

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

func cmdField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] field NAME PATH VALUE")
	}
	check(ts, neg, show(ts, args[0]), args[1], args[2])
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] json PATH VALUE")
	}
	check(ts, neg, ts.ReadFile("stdout"), args[0], args[1])
}

func cmdSave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: save VAR NAME PATH")
	}
	got, err := lookUp(show(ts, args[1]), args[2])
	ts.Check(err)
	ts.Setenv(args[0], got)
}

func show(ts *testscript.TestScript, name string) string {
	out, err := stackOf(ts).Must("show", "--json", name)
	ts.Check(err)
	return out
}

func check(ts *testscript.TestScript, neg bool, data, path, want string) {
	got, err := lookUp(data, path)
	if err != nil && !neg {
		ts.Fatalf("%v in:\n%s", err, data)
	}
	if ok := err == nil && matches(ts, got, want); ok == neg {
		ts.Fatalf("%s is %q, want %q (negated: %t) in:\n%s", path, got, want, neg, data)
	}
}

func matches(ts *testscript.TestScript, got, want string) bool {
	switch {
	case len(want) > 1 && want[0] == '/' && want[len(want)-1] == '/':
		re, err := regexp.Compile("(?s)" + want[1:len(want)-1])
		ts.Check(err)
		return re.MatchString(got)
	case strings.HasPrefix(want, ">"), strings.HasPrefix(want, "<"):
		g, err := strconv.ParseFloat(got, 64)
		ts.Check(err)
		w, err := strconv.ParseFloat(want[1:], 64)
		ts.Check(err)
		return want[0] == '>' && g > w || want[0] == '<' && g < w
	case strings.HasPrefix(want, "!"):
		return got != want[1:]
	}
	return got == want
}

// lookUp gives the value at a path like .last_transition.type, or .0.name of a
// list; .len is how many there are.
func lookUp(data, path string) (string, error) {
	var v any
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	for _, step := range strings.Split(strings.TrimPrefix(path, "."), ".") {
		switch t := v.(type) {
		case map[string]any:
			inner, ok := t[step]
			if !ok {
				return "", fmt.Errorf("no field %q of %s", step, path)
			}
			v = inner
		case []any:
			if step == "len" {
				return strconv.Itoa(len(t)), nil
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(t) {
				return "", fmt.Errorf("no element %q of %s among %d", step, path, len(t))
			}
			v = t[i]
		default:
			return "", fmt.Errorf("nothing below %q of %s", step, path)
		}
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}
