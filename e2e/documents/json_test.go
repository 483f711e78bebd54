package documents_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/doctor"
)

// Every name that --json prints is in the table of its verb, so that nobody has to guess
// which are stable. The parts of a policy are those of its own help.
func TestJSONNames(t *testing.T) {
	text, err := os.ReadFile("../../services/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		if verb, names, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(line, "| `") {
			rows[verb] = names
		}
	}
	session := rows["show"] + rows["history"] + rows["snapshots"]
	for verb, c := range map[string]struct {
		of    any
		names string
	}{
		"show": {schemas.View{}, session}, "history": {schemas.TransitionView{}, session}, "snapshots": {schemas.SnapshotView{}, session},
		"explain": {schemas.Explanation{}, session + rows["explain"]}, "policy get": {schemas.PolicyView{}, rows["policy get"]},
		"policy test": {schemas.PolicyTest{}, rows["policy test"]}, "policy simulate": {schemas.PolicySimulation{}, rows["policy simulate"]},
		"usage": {schemas.UsageReport{}, rows["usage"]}, "stats": {schemas.Stats{}, rows["stats"]}, "audit": {api.Audit{}, rows["audit"]},
		"verify": {schemas.Verified{}, rows["verify"]}, "store check": {schemas.StoreCheck{}, rows["store check"]},
		"store prune": {schemas.StorePrune{}, rows["store prune"]}, "store stats": {schemas.StoreStats{}, rows["store stats"]},
		"key …": {schemas.KeysView{}, rows["key …"]}, "doctor": {doctor.Report{}, rows["doctor"]},
	} {
		if rows[verb] == "" {
			t.Errorf("there is no row of %s", verb)
			continue
		}
		for _, name := range namesOf(reflect.TypeOf(c.of)) {
			if !strings.Contains(c.names, "`"+name+"`") {
				t.Errorf("%s --json prints %q, which its row doesn't have", verb, name)
			}
		}
	}
}

// namesOf gives the names in the JSON of a type, and of the types that it is made of.
func namesOf(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return namesOf(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[schemas.Policy]() {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
		names = append(names, namesOf(f.Type)...)
	}
	return names
}
