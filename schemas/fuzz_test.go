package schemas_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Here are the fuzz targets of what stands inside of messages and documents: names, scopes,
// times and sizes. Those of messages, subjects and policies stand beside their other tests.

// A name that is taken is two tokens of a subject and a path of two elements, and reads the
// same from each way in which it is written.
func FuzzName(f *testing.F) {
	for _, s := range []string{"work", "acme/web-42", "default/work", "a.b", "acme/", "/", "a/b/c", "..", "a/..", "*", strings.Repeat("x", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := schemas.ParseName(text)
		if err != nil {
			return
		}
		short, err1 := schemas.ParseName(n.String())
		key, err2 := schemas.NameOfKey(n.Key())
		if err1 != nil || err2 != nil || short != n || key != n {
			t.Fatalf("%q is %+v, written %q that is %+v, %v, and by its key %+v, %v", text, n, n.String(), short, err1, key, err2)
		}
		if strings.Count(n.Key(), ".") != 1 || strings.ContainsAny(n.Key(), "*> \t\r\n/") || !filepath.IsLocal(string(n.Tenant)+"/"+string(n.Session)) {
			t.Fatalf("%q is taken, with the key %q", text, n.Key())
		}
	})
}

// A scope that is taken is about one thing, has a key of its own, and reads the same again.
func FuzzPolicyScope(f *testing.F) {
	classes := []string{"web", "terminal"}
	for _, s := range []string{"all", "class:web", "class:", "tenant:acme", "tenant:a.b", "session:acme/web-42", "session:default/all", "work", "session:all", "tenant"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schemas.ParsePolicyScope(text, classes)
		if err != nil {
			return
		}
		if again, err := schemas.ParsePolicyScope(string(s), classes); err != nil || again != s {
			t.Fatalf("%q is %q, and that is %q, %v", text, s, again, err)
		}
		about := 0
		for _, is := range []bool{s == schemas.ScopeAll, s.Class() != "", s.Tenant() != ""} {
			if is {
				about++
			}
		}
		if _, ok := s.Session(); ok {
			about++
		}
		if key := s.Key(); about != 1 || strings.ContainsAny(key, "*> \t\r\n/:") || strings.Contains(key, "..") || strings.HasSuffix(key, ".") {
			t.Fatalf("%q is %q, about %d things, with the key %q", text, s, about, key)
		}
	})
}

// A duration and a size that are taken are written as the same, and what is written is taken.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{`"20s"`, `20`, `1.5`, `-1`, `1e300`, `"1h30m"`, `"292y"`, `null`, `"9223372036854775807ns"`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[schemas.Duration](t, data)
	})
}

func FuzzBytes(f *testing.F) {
	for _, s := range []string{`"10G"`, `20`, `"1.5m"`, `-1`, `"1e300"`, `"0x1p62"`, `"8388608T"`, `"nan"`, `"infK"`, `null`, `9223372036854775807`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, ok := same[schemas.Bytes](t, data); ok && b > 0 {
			var again schemas.Bytes
			if err := json.Unmarshal([]byte(`"`+b.String()+`"`), &again); err != nil || again != b {
				t.Fatalf("%s is %d, shown as %s, which is %d, %v", data, b, b, again, err)
			}
		}
	})
}

// same checks that what is taken for a value is written so that it is the same again.
func same[T comparable](t *testing.T, data []byte) (v T, ok bool) {
	t.Helper()
	if json.Unmarshal(data, &v) != nil {
		return v, false
	}
	written, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	var again T
	if err := json.Unmarshal(written, &again); err != nil || again != v {
		t.Fatalf("%s is written as %s, which is %v, %v", data, written, again, err)
	}
	return v, true
}

// Hours that are taken end after the moment that lies in them, within two days and an hour
// that a clock may be put forward.
func FuzzHours(f *testing.F) {
	f.Add("08:00", "18:00", "Europe/Berlin", "mon", int64(1_700_000_000))
	f.Add("22:00", "06:00", "", "sat", int64(0))
	f.Add("00:00", "24:00", "America/St_Johns", "", int64(-1<<40))
	f.Add("+1:30", "08:30", "", "", int64(1<<40))
	f.Add("08:30", " 8:30", "../etc", "sunday", int64(1<<40))
	f.Fuzz(func(t *testing.T, from, to, zone, day string, at int64) {
		h := schemas.Hours{From: from, To: to, Zone: zone}
		if day != "" {
			h.Days = []string{day}
		}
		s, err := h.Span()
		if err != nil {
			return
		}
		for _, text := range []string{from, to} {
			if len(text) != 5 || strings.Trim(text, "0123456789") != ":" {
				t.Fatalf("%q is taken for a time of the day", text)
			}
		}
		now := time.Unix(at%(1<<38), 0)
		if end, ok := s.Until(now); ok && (!end.After(now) || end.Sub(now) > 49*time.Hour) {
			t.Fatalf("%+v: at %s they last until %s", h, now, end)
		}
	})
}
