package upgrade

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// looks are the verbs that look at sessions; NAME stands for each of them.
var looks = []string{
	"ls", "show NAME", "history NAME", "snapshots NAME", "explain NAME", "usage", "usage NAME", "stats", "policy get", "policy get all",
	"policy test all grace=1h", "policy simulate all grace=1h", "audit --verify", "store check", "store stats", "store prune --dry-run", "key ls",
}

// answers gives what the client prints as JSON, by command, when the host has looked at
// each session that runs.
func (i *installation) answers(names []string) map[string]any {
	i.t.Helper()
	for _, name := range names {
		i.until("the host looks at session "+name, func() bool { v := i.view(name); return v.State != schemas.Running || v.PID != 0 })
	}
	all := map[string]any{}
	for _, look := range looks {
		if !strings.Contains(look, "NAME") {
			all[look] = i.ask(strings.Fields(look)...)
			continue
		}
		for _, name := range names {
			command := strings.Replace(look, "NAME", name, 1)
			all[command] = i.ask(strings.Fields(command)...)
		}
	}
	return all
}

// ask runs a verb that has to succeed, and decodes what it prints.
func (i *installation) ask(args ...string) (v any) {
	i.t.Helper()
	out := i.must(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		i.t.Fatalf("%v prints %q: %v", args, out, err)
	}
	if answer, ok := v.(map[string]any); ok && args[0] == "explain" {
		all, _ := answer["blockers"].([]any)
		answer["blockers"] = slices.DeleteFunc(all, func(b any) bool { // how busy it is at the moment depends on the machine
			reason, _ := b.(map[string]any)
			lease, _ := reason["subject"].(string)
			return strings.HasPrefix(lease, "busy.")
		})
	}
	return v
}

// missing lists what a newer answer lacks of an older one: a field, or its type.
func missing(at string, was, is any) (out []string) {
	switch was := was.(type) {
	case nil:
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %T, was an object", at, is)}
		}
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if v, ok := now[key]; ok {
				out = append(out, missing(at+"."+key, was[key], v)...)
			} else {
				out = append(out, at+"."+key+" is gone")
			}
		}
	case []any:
		now, ok := is.([]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %T, was a list", at, is)}
		}
		if len(was) > 0 && len(now) == 0 {
			return []string{at + " is empty"}
		}
		if stages, ok := byName(was); ok {
			after, _ := byName(now)
			return append(out, missing(at, stages, after)...)
		}
		for n := range min(len(was), len(now)) {
			out = append(out, missing(fmt.Sprintf("%s[%d]", at, n), was[n], now[n])...)
		}
	default:
		if fmt.Sprintf("%T", was) != fmt.Sprintf("%T", is) {
			out = append(out, fmt.Sprintf("%s is %T, was %T", at, is, was))
		}
	}
	return out
}

// byName gives the stages of an operation by their names, by which scripts find them: a newer
// program has more of them, in another order.
func byName(list []any) (map[string]any, bool) {
	all := map[string]any{}
	for _, v := range list {
		stage, _ := v.(map[string]any)
		name, named := stage["name"].(string)
		if _, timed := stage["ms"]; !named || !timed {
			return nil, false
		}
		all[name] = stage
	}
	return all, len(all) > 0
}

// differing lists the fields of an older answer that a newer one has otherwise.
func differing(at string, was, is any, but []string) (out []string) {
	switch was := was.(type) {
	case map[string]any:
		now, _ := is.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if !slices.Contains(but, key) {
				out = append(out, differing(at+"."+key, was[key], now[key], but)...)
			}
		}
	case []any:
		now, _ := is.([]any)
		for n := range was {
			if n < len(now) {
				out = append(out, differing(fmt.Sprintf("%s[%d]", at, n), was[n], now[n], but)...)
			} else {
				out = append(out, fmt.Sprintf("%s[%d] is gone", at, n))
			}
		}
	default:
		if was != is {
			out = append(out, fmt.Sprintf("%s is %v, was %v", at, is, was))
		}
	}
	return out
}
