package worker_test

import (
	"encoding/json"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A client that has just heard that a session runs is told its pid.
func TestPIDOfASessionThatHasJustStarted(t *testing.T) {
	b := newBench(t)
	b.work() // which looks at sessions once an hour
	observed := func(uid schemas.UID) schemas.Observed {
		var one map[schemas.UID]schemas.Observed
		for _, question := range []string{"", `["other"]`, `["` + string(uid) + `"]`} {
			msg, err := b.nc.RequestWithContext(b.ctx, schemas.SubjectHost+".h.observe", []byte(question))
			b.must(err)
			one = nil
			b.must(json.Unmarshal(msg.Data, &one))
			if _, there := one[uid]; there == (question == `["other"]`) {
				t.Errorf("the question %s has the answer %v", question, one)
			}
		}
		return one[uid]
	}
	b.asked("count")
	v := b.until("running", running)
	if got := observed(v.UID); got.PID == 0 {
		t.Errorf("after a start the host says %+v", got)
	}
	b.suspend(false)
	b.until("suspended", suspended)
	b.resume()
	b.until("running again", func(v statekv.Versioned) bool { return running(v) && v.Generation > 1 })
	if got := observed(v.UID); got.PID == 0 {
		t.Errorf("after a resume the host says %+v", got)
	}
}
