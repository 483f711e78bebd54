package main

import (
	"errors"
	"testing"
	"time"
)

// A host whose direct connection failed isn't dialed for a time, the others are; each change is told once.
func TestWays(t *testing.T) {
	var w ways
	now := time.Now()
	if try, otherwise := w.before("a", now); !try || otherwise.Way != wayNATS || !w.changed(otherwise) || w.changed(otherwise) {
		t.Errorf("a host that wasn't asked: %t, %+v", try, otherwise)
	}
	failed := w.after("a", now, "10.0.0.1:7443", errors.New("refused"))
	if !w.changed(failed) || failed.String() != "connections to host a go through NATS: refused" {
		t.Errorf("after a failure it says %q", failed)
	}
	if try, otherwise := w.before("a", now.Add(directAgain-1)); try || otherwise != failed || w.changed(otherwise) {
		t.Errorf("soon after a failure: %t, %+v", try, otherwise)
	}
	if try, _ := w.before("b", now); !try {
		t.Error("another host isn't asked")
	}
	if try, _ := w.before("a", now.Add(directAgain)); !try {
		t.Error("it isn't tried again")
	}
	direct := w.after("a", now.Add(directAgain), "10.0.0.1:7443", nil)
	if !w.changed(direct) || direct.String() != "connections go directly to host a at 10.0.0.1:7443" {
		t.Errorf("it says %q", direct)
	}
	if try, _ := w.before("a", now); !try {
		t.Error("a failure is remembered after a connection that was direct")
	}
}
