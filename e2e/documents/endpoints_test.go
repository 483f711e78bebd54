package documents_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

// TestServices runs the console block of the document on the command line, and compares the
// endpoints in it with those of the micro service.
func TestServices(t *testing.T) {
	text, err := os.ReadFile("../../services/README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	data := filepath.Join(t.TempDir(), "data")
	t.Setenv("DIAPAUSE_DATA", data)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	startUp(ctx, t)
	replay(ctx, t, string(text))
	run(ctx, t, "diapause rm --yes work")

	var documented []string
	for line := range strings.Lines(section(t, "The API")) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			documented = append(documented, firsts(quoted, cells[1])...)
		}
	}
	there := endpoints(t, data)
	slices.Sort(documented)
	slices.Sort(there)
	if !slices.Equal(documented, there) {
		t.Errorf("services/README.md names the endpoints\n%v, there are\n%v", documented, there)
	}
}

// endpoints asks the micro service for the names of its endpoints.
func endpoints(t *testing.T, data string) (names []string) {
	t.Helper()
	up, err := datadir.Locate(data)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := natsconn.Connect(t.Context(), up.URL, filepath.Join(data, "creds", "system.nk"), "documents test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("$SRV.INFO.diapause", nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	for _, e := range info.Endpoints {
		names = append(names, strings.TrimPrefix(e.Subject, schemas.SubjectAPI+"."))
	}
	return names
}
