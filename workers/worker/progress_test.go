package worker_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// A step that takes long says so for as long as it takes.
func TestProgressOfLongSteps(t *testing.T) {
	b := newBench(t)
	b.run()
	told := make(chan *nats.Msg, 1000)
	sub, err := b.nc.ChanSubscribe(schemas.SubjectProgress+"."+b.name.Key(), told)
	b.must(err)
	defer func() { b.must(sub.Unsubscribe()) }()
	for _, step := range []struct {
		method, kind, stage string
		ask                 func()
		then                string
	}{
		{"Capture", schemas.OpSuspend, "capture", func() { b.suspend(true) }, "suspended"},
		{"Restore", schemas.OpResume, "restore", func() { b.resume() }, "running"},
	} {
		entered, release := b.pause(step.method)
		step.ask()
		b.wait(entered)
		for times := 0; times < 2; {
			var p schemas.Progress
			select {
			case msg := <-told:
				b.must(json.Unmarshal(msg.Data, &p))
			case <-b.ctx.Done():
				t.Fatalf("%s doesn't say how far it is", step.stage)
			}
			if p.Stage != step.stage {
				continue
			}
			if times++; p.Kind != step.kind || (p.Of > 0) != (step.stage == "restore") || times == 2 && p.MS < 900 {
				t.Errorf("it says %+v", p)
			}
		}
		close(release)
		if step.then == "running" {
			b.until(step.then, running)
		} else {
			b.until(step.then, suspended)
		}
	}
}
