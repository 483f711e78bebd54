package main

import (
	"reflect"
	"testing"
)

func TestSidesOf(t *testing.T) {
	for _, c := range []struct {
		args []string
		want [2]side
	}{
		{[]string{"a", "b"}, [2]side{{"a", 0}, {"b", 0}}},
		{[]string{"a", "3"}, [2]side{{"a", 0}, {"3", 0}}}, // a session may be called so
		{[]string{"a", "2", "#3"}, [2]side{{"a", 2}, {"a", 3}}},
		{[]string{"a", "2", "b", "3"}, [2]side{{"a", 2}, {"b", 3}}},
	} {
		if got, err := sidesOf(c.args); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v", c.args, got, err)
		}
	}
	for _, args := range [][]string{{"a", "b", "3"}, {"a", "1", "b"}, {"a", "0", "1"}, {"a", "1", "b", "x"}} {
		if got, err := sidesOf(args); err == nil {
			t.Errorf("%q: %v", args, got)
		}
	}
}
