package worker_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/rebuild"
)

// restorable is a server whose store is copied, and put back.
type restorable struct {
	t   *testing.T
	dir string
	*server.Server
	port int
}

func serveRestorable(t *testing.T) *restorable {
	t.Helper()
	r := &restorable{t: t, dir: filepath.Join(t.TempDir(), "store")}
	r.start(0)
	u, err := url.Parse(r.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	if r.port, err = strconv.Atoi(u.Port()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *restorable) start(port int) {
	r.t.Helper()
	r.Server = natstest.ServeWith(r.t, server.Options{StoreDir: r.dir, Port: port})
}

func (r *restorable) down() {
	r.Shutdown()
	r.WaitForShutdown()
}

func (r *restorable) copy(to, from string) {
	r.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		r.t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		r.t.Fatal(err)
	}
}

// goOn has others write to the log, unseen by clients that were connected.
func (r *restorable) goOn(entries int) {
	r.t.Helper()
	r.start(0)
	defer r.down()
	records, err := statekv.Open(r.t.Context(), natstest.Connect(r.t, r.ClientURL()), stream.NamesWith(""))
	if err != nil {
		r.t.Fatal(err)
	}
	var v statekv.Versioned
	for i := range entries {
		tr := schemas.Transition{Type: schemas.TIdleRule, Actor: "test"}
		if i == 0 {
			tr = schemas.Transition{Type: schemas.TRun, Actor: "test", Set: schemas.Set{
				New: &schemas.NewSession{UID: "u2", Tenant: "default", Session: "later"}, Op: &schemas.Op{ID: "o2", Kind: schemas.OpStart}, Host: "elsewhere",
			}}
		}
		if v, err = records.Swap(r.t.Context(), v, tr); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A log that was put back is noticed, however little it lost, and however far it went on
// before anyone looked; a server that was merely down isn't taken for that.
func TestLogPutBack(t *testing.T) {
	for name, c := range map[string]struct {
		wrote, goesOn int
		want          string
	}{
		"a moment is lost":       {1, 0, "the log of sessions ends at entry"},
		"it went on, and as far": {1, 1, "is another one"},
		"it went on, further":    {2, 5, "is another one"},
	} {
		t.Run(name, func(t *testing.T) {
			r := serveRestorable(t)
			b := benchOn(t, r.ClientURL())
			w := b.remembering(t.TempDir())
			_, err := w.Regain(b.ctx, false, nil, waitsForNone(t))
			b.must(err)
			ended, _ := b.serve(w)
			b.asked("count")
			b.until("running", running)
			backup := filepath.Join(t.TempDir(), "backup")
			r.down()
			r.copy(backup, r.dir)
			r.start(r.port)
			for range c.wrote {
				v := b.change(schemas.Transition{Type: schemas.TIdleRule})
				b.until("written", func(now statekv.Versioned) bool { return now.Version >= v.Version })
			}
			select {
			case err := <-ended:
				t.Fatalf("a server that was away for a moment ends it: %v", err)
			default:
			}
			r.down()
			r.copy(r.dir, backup)
			if c.goesOn > 0 {
				r.goOn(c.goesOn)
			}
			r.start(r.port)
			select {
			case err = <-ended:
			case <-b.ctx.Done():
				t.Fatal("it serves on")
			}
			if !errors.Is(err, rebuild.ErrWentBack) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Serve ends with %v, want %q", err, c.want)
			}
		})
	}
}
