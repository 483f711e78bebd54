package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checker compiles the committed schemas.
type checker struct{ schemas map[string]*jsonschema.Schema }

func newChecker(t *testing.T) checker {
	t.Helper()
	c := checker{map[string]*jsonschema.Schema{}}
	for name := range documents {
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		s, err := compiler.Compile(filepath.Join(schemaDir, name+".json"))
		if err != nil {
			t.Fatalf("compile the schema of %s: %v", name, err)
		}
		c.schemas[name] = s
	}
	return c
}

// valid checks a document against its schema.
func (c checker) valid(name string, data []byte) error {
	s, ok := c.schemas[name]
	if !ok {
		return fmt.Errorf("there is no schema %q", name)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.Validate(doc)
}

// faithful checks that the type keeps all that the document says.
func faithful(name string, data []byte) error {
	v := reflect.New(reflect.TypeOf(documents[name]))
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v.Interface()); err != nil {
		return fmt.Errorf("the type doesn't know it: %w", err)
	}
	return nil
}

// Golden samples are valid by the schema and known to the type; bad ones aren't
// valid.
func TestSamples(t *testing.T) {
	c := newChecker(t)
	files, err := filepath.Glob("../../schemas/testdata/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d samples in schemas/testdata: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sample := strings.TrimSuffix(filepath.Base(file), ".json")
		if name, _, bad := strings.Cut(sample, ".bad-"); bad {
			if c.schemas[name] == nil || c.valid(name, data) == nil {
				t.Errorf("%s is valid, and should not be", file)
			}
			continue
		}
		name, _, _ := strings.Cut(sample, "-")
		if err := c.valid(name, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := faithful(name, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
