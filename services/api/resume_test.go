package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// alone is a fleet whose one host is gone.
type alone struct{ Fleet }

func (alone) Gone(schemas.HostID) (time.Time, bool) { return time.Now().Add(-time.Hour), true }

func (alone) Place(context.Context, fleet.Want) (schemas.HostID, schemas.Fingerprint, error) {
	return "", schemas.Fingerprint{}, errors.New("host other: its Diapause lacks layer")
}

// What was asked of a host that is gone, and no other can do, isn't waited for: the refusal says why
// the others can't.
func TestHostThatIsGoneIsNotWaitedFor(t *testing.T) {
	b := newBench(t)
	b.starting()
	r := &resumer{sessions: b.server.ends.sessions, hosts: &placement{fleet: alone{}}, board: b.server.board}
	_, err := r.awake(b.ctx, agent, request{schemas.Request{Name: agent.String()}, ann}, nil)
	if schemas.ReasonOf(err) != schemas.ReasonHostGone || !strings.Contains(err.Error(), "lacks layer") {
		t.Errorf("%v, want the reason %q", err, schemas.ReasonHostGone)
	}
}
