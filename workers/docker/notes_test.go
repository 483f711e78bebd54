package docker

import (
	"encoding/json"
	"testing"

	"github.com/diapause/diapause/workers/driver/drivertest"
)

// Notes on disk outlive the program: those of earlier versions are read, and written as
// these read them.
func TestNotesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	const stored = `{"uid":"a","name":{"Tenant":"default","Session":"a"},"epoch":3,"phase":"making","container":"c1","adopted":true,"remove":true,"paused":true,"binds":true,"shared":true,` +
		`"began":"2026-01-02T03:04:05Z","old":"c0","moved":"db","asides":[{"dir":"/v","at":"/w","looks":{"name":"aside","type":"dir","mode":493,"uid":1,"gid":2,"mtime":5,"size":0},"ours":true,"names":["f"],"made":true}],` +
		`"image":"i","volumes":["v"],"networks":["n"],"restart":{"name":"on-failure","tries":3},"ending":true,"kept":true,"nameless":["x"],"still":{"state":"exited","code":7,"began":"b"}}`
	var n note
	if err := json.Unmarshal([]byte(stored), &n); err != nil {
		t.Fatal(err)
	}
	b := n.Backups
	if n.Name != drivertest.Fence("a", 1).Name || len(b) != 1 || b[0].Dir != "/v" || b[0].At != "/w" || !b[0].Replaced || b[0].Added[0] != "f" || !b[0].Created || b[0].Looks.MTime != 5 {
		t.Errorf("backups read as %+v", b)
	}
	if n.Anonymous[0] != "x" || *n.NotRunning != (notRunning{"exited", 7, "b"}) || *n.Restart != (restart{"on-failure", 3}) || n.Phase != making {
		t.Errorf("read as %+v", n)
	}
	if data, err := json.Marshal(n); err != nil || string(data) != stored {
		t.Errorf("written as %s, %v", data, err)
	}
}

// Who offers containers hears of each that is held from now on, also of one that it isn't waiting for yet.
func TestHeldIsTold(t *testing.T) {
	t.Parallel()
	n := &notes{dir: t.TempDir(), kept: make(chan struct{}, 1)}
	for _, w := range []note{{UID: "a", Phase: here}, {UID: "a", Phase: held}, {UID: "b", Phase: held}, {UID: "a"}} {
		if err := n.write(w); err != nil {
			t.Fatal(err)
		}
		if want := w.Phase != here; (len(n.kept) == 1) != want {
			t.Errorf("after %+v is noted, %d are told", w, len(n.kept))
		}
	}
	<-n.kept
	if err := n.write(note{UID: "b"}); err != nil || len(n.kept) != 0 {
		t.Errorf("after one was released, %d are told, %v", len(n.kept), err)
	}
}
