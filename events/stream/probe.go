package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/schemas"
)

// A server keeps what comes in for a stream in a queue, and drops what has no room there. It says so in its log, and
// to publishers that wait for an acknowledgement: most don't, and no reader can notice, since what was dropped
// has no number. A reader of a server that isn't ours, whose log it can't read, finds out by messages of its own.
//
// A probe that is refused for that reason says so itself. For the rest: what is in a full queue when something is
// dropped is all stored later, before any probe that is published from then on. So if fewer messages than
// a queue has room for were stored between a probe and the one after the next, nothing was dropped from when the
// first was acknowledged to when the second was.

// ProbeSubject is where readers publish probes, each on one of its own: no session's, since "~" is no tenant.
const ProbeSubject = schemas.SubjectActivity + ".~"

// probeEvery is how often a reader probes that hears something, if it doesn't hear much; probeKept is how long a
// probe is kept, and probeWait how long it may take. One that took longer than probeLong was behind more
// than can have been heard in time.
const (
	probeEvery = 2 * time.Second
	probeKept  = time.Minute
	probeWait  = 10 * time.Second
	probeLong  = 2 * time.Second
)

// The most messages that fit the queue of a stream, less a part, by the server's version.
const (
	roomBefore = 8_000
	roomSince  = 80_000
)

// codeTooMany is the server's error for a message that had no room.
const codeTooMany = 10167

var errUnproved = errors.New("may not publish on " + ProbeSubject + ".>: use `diapause nats-config`")

// isProbe reports whether a stored message is one.
func isProbe(subject string) bool {
	_, rest, ok := strings.Cut(strings.TrimPrefix(subject, schemas.SubjectStored+"."), ".")
	return ok && strings.HasPrefix(rest, "~.")
}

// probe finds out whether the server drops messages.
type probe struct {
	js      jetstream.JetStream
	subject string
	at      *reach
	last    [2]uint64 // sequences of the last ones that were stored, the newest last; 0 for none
	told    bool      // that none is stored
}

// probes runs until ctx ends.
func (r *reach) probes(ctx context.Context, js jetstream.JetStream) {
	p := probe{js: js, subject: ProbeSubject + "." + nuid.Next() + ".probe", at: r}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.much:
		case <-tick.C:
			if !r.heardMore() && p.last[1] > 0 {
				continue
			}
		case <-ctx.Done():
			return
		}
		p.send(ctx)
	}
}

// send probes once.
func (p *probe) send(ctx context.Context) {
	patient, cancel := context.WithTimeout(ctx, probeWait)
	began := time.Now()
	ack, err := p.js.Publish(patient, p.subject, nil, jetstream.WithMsgTTL(probeKept))
	cancel()
	var api *jetstream.APIError
	switch {
	case ctx.Err() != nil:
	case err == nil:
		p.stored(ack.Sequence, time.Since(began) > probeLong, p.js.Conn().ConnectedServerVersion())
	case errors.As(err, &api) && api.ErrorCode == codeTooMany, p.last[1] > 0:
		p.last = [2]uint64{0, p.last[1]} // what there is between isn't known
		p.at.tell(Heard{Gap: true})
	case !p.told && errors.Is(p.js.Conn().LastError(), nats.ErrPermissionViolation):
		p.told = true
		p.at.tell(Heard{Unproved: fmt.Errorf("%w (%w)", errUnproved, err)})
	}
}

// stored takes in that a probe was stored by a server of a version.
func (p *probe) stored(seq uint64, late bool, version string) {
	before := p.last[0]
	p.last = [2]uint64{p.last[1], seq}
	p.at.probed(seq)
	if late || before > 0 && seq-before >= roomOf(version) {
		p.at.tell(Heard{Gap: true})
	}
}

// roomOf is how much may be stored between two probes.
func roomOf(version string) uint64 {
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d.", &major, &minor); n == 2 && err == nil && (major > 2 || major == 2 && minor >= 15) {
		return roomSince
	}
	return roomBefore
}

// heardMore reports whether something was heard since the last probe.
func (r *reach) heardMore() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seq > r.probe
}

// probed notes where a probe is.
func (r *reach) probed(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probe = seq
}
