package criu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

var _ driver.Rehearser = (*Driver)(nil)

// rehearsal is one that a shim holds while the rest of the image is added.
type rehearsal struct {
	conn  *control.Conn
	outer context.Context
	ctx   context.Context // ends as soon as the rehearsal has failed
	stop  context.CancelCauseFunc
	done  chan struct{} // closed when the shim has said how it ended
	dump  *shim.Dump    // once it is done
	err   error         // likewise
}

func listenRehearsal(ctx context.Context, conn *control.Conn) *rehearsal {
	r := &rehearsal{conn: conn, outer: ctx, done: make(chan struct{})}
	r.ctx, r.stop = context.WithCancelCause(ctx)
	go func() {
		defer close(r.done)
		var m shim.Message
		files, err := conn.Receive(&m)
		closeAll(files)
		switch {
		case err != nil:
			r.err = fmt.Errorf("%w: the session's shim ended (%v)", driver.ErrNotHere, err)
		case m.Failure != nil:
			r.err = m.Failure.Err()
		case m.Phase != shim.PhaseRehearsed || m.Dump == nil:
			r.err = fmt.Errorf("the session's shim said %q instead of %q", m.Phase, shim.PhaseRehearsed)
		default:
			r.dump = m.Dump
		}
		if r.err != nil {
			r.stop(r.err)
		}
	}()
	return r
}

// finish waits for the rehearsal, unless the image couldn't be added (err) or the capture is
// given up, and lets criu end. It returns when the session stands frozen, or runs again.
func (r *rehearsal) finish(dump *shim.Dump, err error) (*shim.Dump, error) {
	defer r.stop(nil)
	if err == nil {
		select {
		case <-r.done:
		case <-r.ctx.Done():
			err = context.Cause(r.ctx)
		}
	}
	driver.LapsOf(r.outer).Mark("rehearsal_wait")
	if err != nil && (r.ctx.Err() == nil || r.outer.Err() != nil) {
		return nil, errors.Join(err, r.giveUp())
	}
	<-r.done
	if r.err != nil {
		return nil, r.err // the shim's last word: the session runs on
	}
	r.dump.Held, r.dump.Lower = dump.Held, dump.Lower
	return r.dump, finish(r.conn, true)
}

// giveUp has the shim end the rehearsal and let the session run, and waits for that.
func (r *rehearsal) giveUp() error {
	if err := r.conn.SetDeadline(time.Now().Add(finishWait)); err != nil {
		return err
	}
	notHeard := r.conn.Send(shim.Answer{Go: false}) // fails if the shim has given up by itself
	<-r.done
	err := r.err
	if err == nil && notHeard != nil {
		return notHeard
	}
	if err == nil { // the rehearsal ended well before the shim heard it
		_, err = expect(r.conn, shim.PhaseDone)
	}
	if driver.KindOf(err) != driver.Broken {
		return nil // its words repeat what the caller knows
	}
	return err
}
