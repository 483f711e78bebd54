package schema

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// versions holds the schemas and samples of every version of the wire that was ever
// in use. They are never changed; a new one is put beside them.
const versions = "../../schemas/testdata/versions"

var freeze = flag.String("freeze", "", "keep the schemas and samples of now as those of a version, e.g. 1.4")

func TestFreeze(t *testing.T) {
	if *freeze == "" {
		earlier(t) // which there have to be
		return
	}
	for from, to := range map[string]string{schemaDir + "/*.json": "jsonschema", "../../schemas/testdata/*.json": "samples"} {
		dir := filepath.Join(versions, *freeze, to)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.Contains(file, ".bad-") {
				continue
			}
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// earlier lists the versions that there were.
func earlier(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(versions, "*"))
	if err != nil || len(dirs) < 4 {
		t.Fatalf("found %d versions in %s: %v", len(dirs), versions, err)
	}
	return dirs
}

// What was stored or sent by an earlier version is understood by this one, whole; and
// what this one writes has all that the earlier one counts on.
func TestEarlierVersions(t *testing.T) {
	for _, dir := range earlier(t) {
		files, err := filepath.Glob(filepath.Join(dir, "jsonschema", "*.json"))
		if err != nil || len(files) < 10 {
			t.Fatalf("found %d schemas in %s: %v", len(files), dir, err)
		}
		for _, file := range files {
			now := filepath.Join(schemaDir, filepath.Base(file))
			if _, err := os.Stat(now); err != nil {
				t.Errorf("version %s had a document that is gone: %v", filepath.Base(dir), err)
				continue
			}
			for _, complaint := range compare(load(t, file), load(t, now)) {
				t.Errorf("%s since version %s: %s", filepath.Base(file), filepath.Base(dir), complaint)
			}
		}
		samples(t, dir)
	}
}

// samples checks that the types of today keep all that an old document says.
func samples(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "samples", "*.json"))
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d samples in %s: %v", len(files), dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "-")
		if err := faithful(name, data); err != nil {
			t.Errorf("%s of version %s: %v", filepath.Base(file), filepath.Base(dir), err)
		}
	}
}

func load(t *testing.T, file string) object {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

// comparison walks two versions of a schema beside each other.
type comparison struct {
	old, now   object // the documents, for their references
	seen       map[string]bool
	complaints []string
}

// compare says what in a schema breaks those who know the old one: a field is gone,
// has another type, isn't always there any more, or fewer words are understood.
func compare(old, now object) []string {
	c := comparison{old: old, now: now, seen: map[string]bool{}}
	c.walk("", old, now)
	return c.complaints
}

func (c *comparison) say(path, format string, args ...any) {
	c.complaints = append(c.complaints, path+": "+fmt.Sprintf(format, args...))
}

func (c *comparison) walk(path string, old, now object) {
	if name, ok := old["$ref"].(string); ok {
		if c.seen[name] {
			return
		}
		c.seen[name] = true
	}
	old, now = target(c.old, old), target(c.now, now)
	if fmt.Sprint(old["type"]) != fmt.Sprint(now["type"]) {
		c.say(path, "was %v, is %v", old["type"], now["type"])
		return
	}
	if was, is := old["pattern"], now["pattern"]; was != is {
		c.say(path, "its form was %v, is %v", was, is)
	}
	for _, word := range stringsOf(old["required"]) {
		if !slices.Contains(stringsOf(now["required"]), word) {
			c.say(path, "%q was always there, and isn't any more", word)
		}
	}
	for _, word := range stringsOf(old["enum"]) {
		if !slices.Contains(stringsOf(now["enum"]), word) {
			c.say(path, "the word %q is gone", word)
		}
	}
	c.fields(path, old, now)
	for _, key := range []string{"items", "additionalProperties"} {
		was, ok := old[key].(object)
		if is, still := now[key].(object); ok && still {
			c.walk(path+"["+key+"]", was, is)
		} else if ok {
			c.say(path, "had %s of a kind, and hasn't any more", key)
		}
	}
}

func (c *comparison) fields(path string, old, now object) {
	was, _ := old["properties"].(object)
	is, _ := now["properties"].(object)
	for name, field := range was {
		of, ok := field.(object)
		if !ok {
			continue // anything goes
		}
		still, ok := is[name].(object)
		if !ok {
			c.say(path+"."+name, "is gone")
			continue
		}
		c.walk(path+"."+name, of, still)
	}
}

func target(doc, o object) object {
	for {
		name, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		defs, _ := doc["$defs"].(object)
		next, ok := defs[strings.TrimPrefix(name, "#/$defs/")].(object)
		if !ok {
			return object{"type": "missing " + name}
		}
		o = next
	}
}

func stringsOf(v any) (out []string) {
	all, _ := v.([]any)
	for _, e := range all {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

// The comparison finds what it is for.
func TestBreakingChangesAreFound(t *testing.T) {
	old := `{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","required":["x","s"],"properties":{"x":{"type":"integer"},"s":{"enum":["a","b"],"type":"string"},"l":{"type":"array","items":{"type":"string"}}}}}}`
	for name, change := range map[string][2]string{
		"a field that is gone":        {`"x":{"type":"integer"},`, ``},
		"another type":                {`"x":{"type":"integer"}`, `"x":{"type":"string"}`},
		"a field that may be missing": {`["x","s"]`, `["x"]`},
		"a word that is gone":         {`["a","b"]`, `["a"]`},
		"another type in a list":      {`"items":{"type":"string"}`, `"items":{"type":"object"}`},
		"a form":                      {`"type":"string"},"l"`, `"type":"string","pattern":"^a$"},"l"`},
		"":                            {`"b"`, `"b","c"`},
		" ":                           {`"l":`, `"new":{"type":"integer"},"l":`},
		"  ":                          {`["x","s"]`, `["x","s","l"]`},
	} {
		changed := strings.Replace(old, change[0], change[1], 1)
		if changed == old {
			t.Fatalf("%s: nothing was changed", name)
		}
		var a, b object
		if err := json.Unmarshal([]byte(old), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(changed), &b); err != nil {
			t.Fatal(err)
		}
		harmless := strings.TrimSpace(name) == ""
		if found := compare(a, b); len(found) > 0 == harmless {
			t.Errorf("%q: %v", name, found)
		}
	}
}
