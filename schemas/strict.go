package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// strictly reads JSON that people write. What is wrong it says in their words.
func strictly(data []byte, v any) error {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return readable(err)
	}
	if dec.More() {
		return errors.New("can't be read: there is more after it")
	}
	return nil
}

func readable(err error) error {
	var wrong *json.UnmarshalTypeError
	var bad *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s can't be %s: want %s", wrong.Field, given(wrong.Value), wanted(wrong.Type))
	case errors.As(err, &wrong):
		return fmt.Errorf("can't be %s: want %s", given(wrong.Value), wanted(wrong.Type))
	case errors.As(err, &bad):
		return fmt.Errorf("can't be read as JSON: %v at byte %d", bad, bad.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("can't be read as JSON: it ends too early")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		return fmt.Errorf("%s is no part of it", name)
	}
	return fmt.Errorf("can't be read: %s", text)
}

// given names a value of JSON.
func given(value string) string {
	kind, number, _ := strings.Cut(value, " ")
	switch {
	case number != "":
		return number
	case kind == "bool":
		return "true or false"
	case kind == "object", kind == "array":
		return "an " + kind
	case kind == "string":
		return "a text"
	}
	return "a " + kind
}

// wanted names what a type holds.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}

// unit refuses a number where people write a duration: it would be one of seconds, and
// who leaves the unit out may mean minutes. 0 is 0 in every unit.
func unit(t reflect.Type, value string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var n float64
	if t != reflect.TypeFor[Duration]() || json.Unmarshal([]byte(value), &n) != nil || n == 0 {
		return nil
	}
	return fmt.Errorf("%s of what? Want a unit: %ss, %sm or %sh", value, value, value, value)
}

// together joins errors in one line.
func together(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return inLine(errs)
}

type inLine []error

func (l inLine) Error() string {
	words := make([]string, len(l))
	for i, err := range l {
		words[i] = err.Error()
	}
	return strings.Join(words, "; ")
}

func (l inLine) Unwrap() []error { return l }
