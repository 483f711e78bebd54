package strangers

import (
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestLedger(t *testing.T) {
	var l Ledger
	now := time.Now()
	subject := func(session, n int) string {
		return fmt.Sprintf("%s.acme.s%d.hold.k%d.~1", schemas.SubjectActivity, session, n)
	}
	fill := func(by string, sessions, each int) (took int) {
		for s := range sessions {
			for n := range each {
				if l.Take(by, subject(s, n)+by, time.Minute, now) {
					took++
				}
			}
		}
		return took
	}
	if got := fill("~1", 1, 2*MostOfSession); got != MostOfSession {
		t.Errorf("%d subjects of a session, want %d", got, MostOfSession)
	}
	if got := fill("~1", 1, 2*MostOfSession); got != MostOfSession {
		t.Errorf("%d of them again, want %d", got, MostOfSession)
	}
	if got := fill("~2", 1000, MostOfSession); got != MostOfUser {
		t.Errorf("%d subjects of a user, want %d", got, MostOfUser)
	}
	for n := range 10 {
		fill(fmt.Sprint("~u", n), 1000, 100)
	}
	if len(l.entries) != MostOfAll {
		t.Errorf("%d subjects of all, want %d", len(l.entries), MostOfAll)
	}
	now = now.Add(time.Hour)
	if !l.Take("~3", subject(5, 5), time.Minute, now) || len(l.entries) != 1 || len(l.of) != 2 {
		t.Errorf("when all has run out %d are counted, of %d", len(l.entries), len(l.of))
	}
}
