package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/diapause/diapause/schemas"
)

var update = flag.Bool("update", false, "write schemas/jsonschema again")

const (
	schemaDir = "../../schemas/jsonschema"
	base      = "https://github.com/diapause/diapause/schemas/jsonschema/"
)

// documents are the types that travel or are stored on their own.
var documents = map[string]any{
	"activity":          schemas.Activity{},
	"command":           schemas.Command{},
	"use_history":       schemas.UseHistory{},
	"event":             schemas.Event{},
	"explanation":       schemas.Explanation{},
	"host":              schemas.Host{},
	"host_lease":        schemas.HostLease{},
	"host_order":        schemas.HostOrder{},
	"host_view":         schemas.HostView{},
	"image_header":      schemas.ImageHeader{},
	"keys_view":         schemas.KeysView{},
	"observed":          schemas.Observed{},
	"place":             schemas.Place{},
	"policy_simulation": schemas.PolicySimulation{},
	"policy_test":       schemas.PolicyTest{},
	"policy_view":       schemas.PolicyView{},
	"policy_document":   schemas.PolicyDocument{},
	"progress":          schemas.Progress{},
	"recovery":          schemas.Recovery{},
	"request":           schemas.Request{},
	"session_record":    schemas.SessionRecord{},
	"snapshot_view":     schemas.SnapshotView{},
	"stats":             schemas.Stats{},
	"verified":          schemas.Verified{},
	"store_prune":       schemas.StorePrune{},
	"store_stats":       schemas.StoreStats{},
	"store_check":       schemas.StoreCheck{},
	"template_view":     schemas.TemplateView{},
	"tenant_keys":       schemas.TenantKeys{},
	"token_record":      schemas.TokenRecord{},
	"token_view":        schemas.TokenView{},
	"transition":        schemas.TransitionView{},
	"usage_report":      schemas.UsageReport{},
	"view":              schemas.View{},
	"who_am_i":          schemas.WhoAmI{},
	"listener_record":   schemas.ListenerRecord{},
	"listener_view":     schemas.ListenerView{},
}

// tokens are the types that name something.
var tokens = []reflect.Type{
	reflect.TypeFor[schemas.Tenant](), reflect.TypeFor[schemas.SessionID](), reflect.TypeFor[schemas.HostID](), reflect.TypeFor[schemas.UID](),
}

// words are the closed sets of strings.
var words = map[reflect.Type][]any{
	reflect.TypeFor[schemas.State](): {
		schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming,
		schemas.Exited, schemas.Failed, schemas.Deleted, schemas.Template,
	},
	reflect.TypeFor[schemas.TemplateState](): {schemas.TemplateMaking, schemas.TemplateReady, schemas.TemplateRemoving, schemas.TemplateRemoved},
}

// mapType gives the schema of the types that encode themselves, or whose Go type
// says less than is true.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[schemas.Duration]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$`, Examples: []any{"20s", "1h30m"}},
			{Type: "number", Description: "seconds"},
		}}
	case words[t] != nil:
		return &jsonschema.Schema{Type: "string", Enum: words[t]}
	}
	for _, token := range tokens {
		if t == token {
			return &jsonschema.Schema{Type: "string", Pattern: `^[A-Za-z0-9_-]{1,64}$`}
		}
	}
	return nil
}

func generate(t *testing.T, name string, v any) []byte {
	t.Helper()
	// What a newer version adds must not stop an older reader.
	r := &jsonschema.Reflector{Mapper: mapType, AllowAdditionalProperties: true, Anonymous: true}
	if err := r.AddGoComments("github.com/diapause/diapause/schemas", "../../schemas", jsonschema.WithFullComment()); err != nil {
		t.Fatalf("read the comments of package schemas: %v", err)
	}
	r.CommentMap = fromHere(r.CommentMap)
	s := r.Reflect(v)
	s.ID = jsonschema.ID(base + name + ".json")
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fromHere gives the comments their import path: they were read from a path that
// goes up and down.
func fromHere(comments map[string]string) map[string]string {
	out := make(map[string]string, len(comments))
	for k, v := range comments {
		if _, name, ok := strings.Cut(k, "schemas."); ok {
			k = "github.com/diapause/diapause/schemas." + name
		}
		out[k] = strings.Join(strings.Fields(v), " ")
	}
	return out
}

// The committed schemas are those of the types, no more and no fewer.
func TestSchemasMatchTypes(t *testing.T) {
	for name, v := range documents {
		want, file := generate(t, name, v), filepath.Join(schemaDir, name+".json")
		if *update {
			if err := os.MkdirAll(schemaDir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; `go test ./schema -update` writes it", err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s isn't what the type says; `go test ./schema -update` writes it again, and a reader of the old form must still understand the new", file)
		}
	}
	files, err := os.ReadDir(schemaDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok && documents[name] == nil {
			t.Errorf("%s is the schema of no type", f.Name())
		}
	}
}
