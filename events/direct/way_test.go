package direct

import (
	"errors"
	"testing"
	"time"
)

// A host whose direct connection failed isn't dialed for a time, the others are; each change is told once.
func TestWays(t *testing.T) {
	var w Ways
	now := time.Now()
	if try, otherwise := w.Before("a", now); !try || otherwise.Way != WayNATS || !w.Changed(otherwise) || w.Changed(otherwise) {
		t.Errorf("a host that wasn't asked: %t, %+v", try, otherwise)
	}
	failed := w.After("a", now, "10.0.0.1:7443", errors.New("refused"))
	if !w.Changed(failed) || failed.String() != "connections to host a go through NATS: refused" {
		t.Errorf("after a failure it says %q", failed)
	}
	if try, otherwise := w.Before("a", now.Add(directAgain-1)); try || otherwise != failed || w.Changed(otherwise) {
		t.Errorf("soon after a failure: %t, %+v", try, otherwise)
	}
	if try, _ := w.Before("b", now); !try {
		t.Error("another host isn't asked")
	}
	if try, _ := w.Before("a", now.Add(directAgain)); !try {
		t.Error("it isn't tried again")
	}
	direct := w.After("a", now.Add(directAgain), "10.0.0.1:7443", nil)
	if !w.Changed(direct) || direct.String() != "connections go directly to host a at 10.0.0.1:7443" {
		t.Errorf("it says %q", direct)
	}
	if try, _ := w.Before("a", now); !try {
		t.Error("a failure is remembered after a connection that was direct")
	}
}
