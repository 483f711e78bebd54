package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/schemas"
)

// counted waits until what came in is as wanted.
func (b *bench) counted(ok func(schemas.Intake) bool) schemas.Intake {
	b.t.Helper()
	var i schemas.Intake
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if i = b.scheduler.Intake(); ok(i) {
			return i
		}
	}
	b.t.Fatalf("what came in doesn't come to be as it should: %+v", i)
	return i
}

func (b *bench) raw(rest, data string, header ...string) {
	b.t.Helper()
	m := nats.NewMsg(schemas.SubjectActivity + "." + rest)
	m.Data = []byte(data)
	for i := 0; i < len(header); i += 2 {
		m.Header[header[i]] = []string{header[i+1]}
	}
	b.must(b.nc.PublishMsg(m))
}

// All that strangers send is counted by what is wrong with it, and shown.
func TestHostileIntakeIsCounted(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, time.Hour)
	b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Running })
	natstest.AwaitInterest(t, b.server, schemas.SubjectActivity+".work")
	natstest.AwaitInterest(t, b.server, schemas.SubjectActivity+".default.work")
	cloud := []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "shop", "ce-type", "com.example.key", "ce-time", "2001-01-01T00:00:00Z"}
	b.raw("default.work.input", "")
	b.raw("default.work.exec", "hello", append(cloud, "content-type", "text/plain")...)
	b.raw("default.work", "")
	b.raw("work", "")
	b.raw("default.work.mood", "")
	b.raw("default.work.busy", "")
	b.raw("default.work.hold.a.b", "")
	b.raw("default.work.http", "[]")
	b.raw("default.work.output", "half a lease {")
	b.raw("default.work.heartbeat", `{"specversion":"0.1"}`)
	b.raw("missing.there.input", "")
	b.counted(func(i schemas.Intake) bool { return i.Strangers == 1 && i.BadSubject == 4 }) // which come by two ways, in any order
	b.raw("default.work.hold.large", `{"reason":"`+strings.Repeat("x", schemas.MaxActivity)+`"}`)
	i := b.counted(func(i schemas.Intake) bool { return i.TooBig == 1 })
	want := schemas.Intake{Activity: 3, CloudEvents: 1, Skewed: 1, BadSubject: 4, UnknownKind: 1, BadPayload: 3, TooBig: 1, Strangers: 1, LastBad: i.LastBad}
	if i != want {
		t.Errorf("counted %+v, want %+v", i, want)
	}
	if i.LastBad == nil || i.LastBad.Why != schemas.BadSize || !strings.Contains(i.LastBad.Text, "diapause.v1.activity.") || !strings.Contains(i.LastBad.Text, "hold.large") {
		t.Errorf("the last that was bad: %+v", i.LastBad)
	}
	e := b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Running })
	if !strings.Contains(fmt.Sprint(e.Blockers), "exec") {
		t.Errorf("the CloudEvent didn't count: %+v", e.Blockers)
	}
}

// A flood for sessions that there aren't takes bounded room, and is harmless to those
// that there are.
func TestFlood(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.run(work, time.Hour)
	b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Running })
	const floods = 20_000
	for n := range floods {
		b.raw(fmt.Sprintf("x.s%d.hold.h%d", n, n), `{"ttl":"720h"}`)
		if n%1000 == 0 { // its acknowledgement says that those before are stored, too: the server drops what is too much at once
			_, err := b.js.Publish(b.ctx, schemas.SubjectActivity+".default.work.presence.page", []byte(`{"ttl":"1h","reason":"real"}`))
			b.must(err)
		}
	}
	b.raw("default.work.input", "")
	i := b.counted(func(i schemas.Intake) bool { return i.Strangers == floods })
	if i.Forgotten < floods-1000 {
		t.Errorf("of %d strangers %d were forgotten", floods, i.Forgotten)
	}
	e := b.explained(work, func(e schemas.Explanation) bool { return strings.Contains(fmt.Sprint(e.Blockers), "input") })
	if !strings.Contains(fmt.Sprint(e.Blockers), "real") {
		t.Errorf("what was said of a session was drowned: %+v", e.Blockers)
	}
}
