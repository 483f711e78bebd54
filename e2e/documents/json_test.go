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

// Every name that --json prints is in the list, in the item of its verb. The parts of a
// policy are those of its own help.
func TestJSONNames(t *testing.T) {
	rows := map[string]string{}
	for _, item := range items(section(t, "JSON")) {
		rows[quoted.FindStringSubmatch(item)[1]] = item
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
			t.Errorf("there is no item of %s", verb)
			continue
		}
		for _, name := range namesOf(reflect.TypeOf(c.of)) {
			if !strings.Contains(c.names, "`"+name+"`") {
				t.Errorf("%s --json prints %q, which its item doesn't have", verb, name)
			}
		}
	}
}

// section gives a section of the document on the command line.
func section(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../services/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+name+"\n")
	if !ok {
		t.Fatalf("services/README.md has no section %q", name)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// items gives the items of a list, each on one line.
func items(text string) (all []string) {
	for _, item := range strings.Split(text, "\n- ")[1:] {
		item, _, _ = strings.Cut(item, "\n\n")
		all = append(all, strings.Join(strings.Fields(item), " "))
	}
	return all
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
