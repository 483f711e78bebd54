package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Assign changes a policy as people write it: "grace=10m", "ignore=busy.cpu,presence.tcp",
// "ask=for:30s,defer:5m,times:3", "quiet=mon-fri 08:00-18:00 Europe/Berlin; sat 09:00-12:00",
// "score=base:120". Nothing after the = takes back what was set.
func (p *Policy) Assign(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q: want KEY=VALUE, one of %s", text, strings.Join(PolicyKeys(), ", "))
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	f, ok := policyFields()[strings.ReplaceAll(key, "-", "_")] // on-resume-failure is the name of the flag
	if !ok {
		return fmt.Errorf("%q is no part of a policy: want one of %s", key, strings.Join(PolicyKeys(), ", "))
	}
	to := reflect.ValueOf(p).Elem().Field(f)
	if value == "" {
		to.SetZero()
		return nil
	}
	var err error
	switch {
	case key == "quiet":
		p.Quiet, err = parseQuiet(value)
	case to.Kind() == reflect.Slice:
		err = into(to, list(value))
	case to.Kind() == reflect.Pointer && to.Type().Elem().Kind() == reflect.Struct:
		err = parts(to, value)
	default:
		if err = unit(to.Type(), value); err == nil {
			err = into(to, value)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// PolicyKeys are the parts of a policy, by name.
func PolicyKeys() []string { return slices.Sorted(maps.Keys(policyFields())) }

func policyFields() map[string]int { return fieldsOf(reflect.TypeFor[Policy]()) }

// fieldsOf gives the places of a struct's fields by their names.
func fieldsOf(t reflect.Type) map[string]int {
	out := map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out[name] = i
	}
	return out
}

// none is the empty list, where an empty text takes a list back.
const none = "none"

func list(value string) []string {
	if value == none {
		return []string{}
	}
	words := strings.Split(value, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

// parts reads "name:value,name:value" into a struct, field by field over what is there.
func parts(to reflect.Value, value string) error {
	if value == none { // of ask: not to ask
		to.Set(reflect.New(to.Type().Elem()))
		return nil
	}
	fields, known := map[string]json.RawMessage{}, fieldsOf(to.Type().Elem())
	for word := range strings.SplitSeq(value, ",") {
		name, v, ok := strings.Cut(strings.TrimSpace(word), ":")
		if !ok {
			return fmt.Errorf("%q: want NAME:VALUE,NAME:VALUE of %s", word, names(known))
		}
		i, ok := known[name]
		if !ok {
			return fmt.Errorf("%q is no part of it: want one of %s", name, names(known))
		}
		if err := unit(to.Type().Elem().Field(i).Type, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fields[name] = scalar(v)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return strictly(data, to.Addr().Interface())
}

func names(fields map[string]int) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

func into(to reflect.Value, v any) error {
	data, err := json.Marshal(v)
	if s, ok := v.(string); ok {
		data = scalar(s)
	}
	if err != nil {
		return err
	}
	return strictly(data, to.Addr().Interface())
}

// scalar writes a word as JSON: a number or a truth value as it is, all else as text.
func scalar(s string) json.RawMessage {
	var n json.Number
	if s == "true" || s == "false" || json.Unmarshal([]byte(s), &n) == nil {
		return json.RawMessage(s)
	}
	data, _ := json.Marshal(s) // a string always can be
	return data
}

// ReadPolicy reads a policy from JSON and takes nothing that it doesn't know: a
// mistyped name must not be taken for nothing said.
func ReadPolicy(data []byte) (p Policy, err error) {
	return p, strictly(data, &p)
}

// parseQuiet reads hours separated by semicolons: days if not all, then from-to, then a
// time zone if not UTC.
func parseQuiet(value string) ([]Hours, error) {
	out := []Hours{}
	if value == none {
		return out, nil
	}
	for part := range strings.SplitSeq(value, ";") {
		words := strings.Fields(part)
		var h Hours
		if len(words) > 1 && !strings.Contains(words[0], ":") {
			days, err := parseDays(words[0])
			if err != nil {
				return nil, err
			}
			h.Days, words = days, words[1:]
		}
		if len(words) == 0 || len(words) > 2 {
			return nil, fmt.Errorf("%q: want for example \"mon-fri 08:00-18:00 Europe/Berlin\"", part)
		}
		h.From, h.To, _ = strings.Cut(words[0], "-")
		if len(words) == 2 {
			h.Zone = words[1]
		}
		out = append(out, h)
	}
	return out, nil
}

// parseDays reads "mon-fri" or "sat,sun".
func parseDays(text string) (out []string, err error) {
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		first, last, ranged := strings.Cut(word, "-")
		a, b := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if !ranged {
			b = a
		}
		if a < 0 || b < 0 {
			return nil, fmt.Errorf("days %q: want for example mon-fri or sat,sun", word)
		}
		for ; ; a = (a + 1) % 7 {
			out = append(out, weekdays[a])
			if a == b {
				break
			}
		}
	}
	return out, nil
}

// Lines gives the parts that are set, one a line, as Assign reads them.
func (p Policy) Lines() []string {
	v := reflect.ValueOf(p)
	fields := policyFields()
	var out []string
	for _, key := range PolicyKeys() {
		if f := v.Field(fields[key]); !f.IsZero() {
			out = append(out, key+"="+written(key, f))
		}
	}
	return out
}

// Keys gives the names of the parts that are set.
func (p Policy) Keys() (keys []string) {
	for _, line := range p.Lines() {
		key, _, _ := strings.Cut(line, "=")
		keys = append(keys, key)
	}
	return keys
}

// Says reports whether a part is set, by its name.
func (p Policy) Says(key string) bool { return slices.Contains(p.Keys(), key) }

func written(key string, f reflect.Value) string {
	switch {
	case f.Kind() == reflect.Slice && f.Len() == 0:
		return none
	case f.Kind() == reflect.Slice:
		words := make([]string, f.Len())
		for i := range words {
			words[i] = fmt.Sprint(f.Index(i).Interface())
		}
		if key == "quiet" {
			return strings.Join(words, "; ")
		}
		return strings.Join(words, ",")
	case f.Kind() == reflect.Pointer && f.Elem().Kind() == reflect.Struct:
		return writtenParts(f.Elem())
	case f.Kind() == reflect.Pointer:
		f = f.Elem()
	}
	if d, ok := f.Interface().(Duration); ok {
		return d.String()
	}
	return fmt.Sprint(f.Interface())
}

func writtenParts(s reflect.Value) string {
	if s.IsZero() {
		return none
	}
	var words []string
	for i := range s.NumField() {
		f, tag := s.Field(i), s.Type().Field(i).Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if f.Kind() != reflect.Pointer || !f.IsNil() {
			words = append(words, name+":"+written(name, f))
		}
	}
	return strings.Join(words, ",")
}

// String writes the duration as it is read.
func (d Duration) String() string {
	const day = Duration(24 * time.Hour)
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text, _ := d.MarshalText() // has no way to fail
	return string(text)
}

// String writes the hours as Policy.Assign reads them.
func (h Hours) String() string {
	words := []string{strings.Join(h.Days, ","), h.From + "-" + h.To, h.Zone}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
