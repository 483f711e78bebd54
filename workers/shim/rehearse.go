package shim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/inventory"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
)

// rehearsals restore what was just dumped beside the frozen original, without its pages and
// the contents of its files, up to its next instruction, and kill it there. It is the dumper's
// part that proves an image before the only other copy of the session is killed.
type rehearsals struct {
	setup  Setup
	place  place // the session's
	points *points

	program *program
}

// rehearsalLimit bounds one rehearsal: the session stands still meanwhile.
const rehearsalLimit = 2 * time.Minute

// rehearsal is that of one image. It begins before the image is made: where it takes place is
// made ready meanwhile, and removed while the worker is answered. Its methods are for one goroutine.
type rehearsal struct {
	*rehearsals
	init   int // of the session, on the host
	before *inventory.Inventory

	cancel context.CancelFunc // of what makes ready
	ready  chan *quarantine   // one, unless run or end have taken it
	taken  bool
	ending sync.WaitGroup
	ends   chan error // of quarantines that have ended
}

// rehearsalAttempts is how often one is tried if it fails for a passing reason.
const rehearsalAttempts = 3

// begin begins a rehearsal. init is that of the session, on the host, before what its processes
// have. What the image holds beside criu's files must be saved. end must be called.
func (r *rehearsals) begin(init int, before *inventory.Inventory) *rehearsal {
	ctx, cancel := context.WithCancel(context.Background())
	h := &rehearsal{rehearsals: r, init: init, before: before, cancel: cancel, ready: make(chan *quarantine, 1), ends: make(chan error, rehearsalAttempts)}
	go func() { h.ready <- h.prepare(ctx) }()
	return h
}

// run rehearses. large is what went to the worker of the images, if any did. It returns what
// differs as soon as that is known; end returns when nothing is left of the copy.
func (h *rehearsal) run(ctx context.Context, large *largeImages) ([]inventory.Difference, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rehearsalLimit, fmt.Errorf("the rehearsal took longer than %v", rehearsalLimit))
	defer cancel()
	defer context.AfterFunc(ctx, h.cancel)()
	h.taken = true
	q := <-h.ready
	for i := 1; ; i++ {
		differences, err := h.once(ctx, q, large)
		if err == nil || ctx.Err() != nil || i == rehearsalAttempts || !errors.Is(err, ErrPassing) {
			return differences, err
		}
		h.ending.Wait() // the next one takes its place
		q = h.prepare(ctx)
	}
}

// once rehearses in a quarantine, and has it end.
func (h *rehearsal) once(ctx context.Context, q *quarantine, large *largeImages) ([]inventory.Difference, error) {
	restored := make(chan error, 1)
	h.ending.Go(func() {
		err, told := q.err, false
		if err == nil {
			err = q.run(ctx, large, func() {
				told = true
				restored <- nil
			})
		}
		h.ends <- q.end()
		if !told {
			restored <- err
		}
	})
	if err := <-restored; err != nil {
		return nil, err
	}
	return inventory.Compare(h.before, q.after, !q.meta.TCPEstablished), nil
}

// end returns when nothing is left of the rehearsal, run or not.
func (h *rehearsal) end() error {
	h.cancel()
	if !h.taken {
		h.taken = true
		h.ends <- (<-h.ready).end()
	}
	h.ending.Wait()
	var errs []error
	for len(h.ends) > 0 {
		errs = append(errs, <-h.ends)
	}
	return errors.Join(errs...)
}

// enough is how many differences a text lists.
const enough = 4

// judge makes of differences an error, or warnings. Of what is among the warnings said it doesn't
// warn again.
func (r *rehearsals) judge(all []inventory.Difference, said []schemas.Warning) (warnings []schemas.Warning, err error) {
	var refused []string
	for _, d := range all {
		if d.Class == inventory.Refuse {
			refused = append(refused, d.String())
			continue
		}
		if slices.ContainsFunc(said, func(w schemas.Warning) bool { return says(w, d) }) {
			continue
		}
		warnings = append(warnings, schemas.Warning{
			Code: schemas.WarnDiffers, Subject: fmt.Sprintf("%s, %s", d.Object, d.Aspect),
			Text: fmt.Sprintf("after a resume %s: %s", d, d.Why),
		})
	}
	if len(refused) == 0 {
		return warnings, nil
	}
	text := strings.Join(refused[:min(len(refused), enough)], "; ")
	if more := len(refused) - enough; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return nil, &driver.Error{
		Kind: driver.Unrestorable, Hint: notRehearsed,
		Text: fmt.Sprintf("session %s would not come back as it is: %s", r.setup.Name, text),
	}
}

// says reports whether a warning of the look before the freeze is about a difference.
func says(w schemas.Warning, d inventory.Difference) bool {
	if w.Code != schemas.WarnNotKept {
		return false
	}
	switch d.Aspect {
	case inventory.AspectDatagrams, inventory.AspectEvents:
		return strings.HasSuffix(w.Subject, fmt.Sprintf("(pid %d), %s", d.PID, d.Thing))
	case inventory.AspectPeer:
		return w.Subject == preflight.SubjectPeer // one for all sockets
	}
	return false
}

// notRehearsed says how to have a session suspended all the same.
const notRehearsed = "end what it names, or have the session suspended without a rehearsal: `diapause policy set session:NAME rehearse=never`"

// start starts a criu in the quarantine, with all that the copy inherits. It waits for restore.
func (q *quarantine) start() error {
	in := &inheritance{terminals: q.terminals}
	defer in.close()
	rest := &restorer{boot: q.boot, bare: true}
	if err := rest.reconnect(q.meta, in); err != nil {
		return err
	}
	if q.network != nil {
		if err := (&online{network: q.network}).inherit(in); err != nil {
			return err
		}
	}
	q.options = rest.restoreOptions(q.meta, in)
	q.options.ImagesDir = q.images()
	q.over = make(chan struct{})
	return alone(q.init, q.before.Devices(), q.over, func() (err error) {
		q.criu, err = rpc.StartHeld(q.setup.Criu, q.program.apart(q.group), in.files...)
		return err
	})
}

// restore has criu restore until the copy stands before its first instruction, takes its
// inventory, calls taken, and kills it.
func (q *quarantine) restore(ctx context.Context, taken func()) error {
	stop := context.AfterFunc(ctx, func() { _ = q.kill() }) // end tries again
	defer stop()
	criu, reached := q.criu, false
	q.criu = nil // waited for from here on
	_, err := criu.Restore(q.options, func(n rpc.Notice) error {
		switch n.Step {
		case rpc.SetupNamespaces:
			if q.meta.EmptyNetwork {
				return loopbackOf(n.PID)
			}
		case rpc.PostRestore:
			q.copy = n.PID
		case rpc.PreResume:
			reached = true
			err := q.take(ctx)
			stop()
			if err == nil {
				taken()
			}
			return errors.Join(err, q.kill()) // criu as well, which ends the wait
		}
		return nil
	})
	var f *rpc.Failure
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &f) && f.Caller != nil:
		return f.Caller
	case reached:
		return nil
	}
	return q.explain(err)
}

// take lists what the copy has.
func (q *quarantine) take(ctx context.Context) (err error) {
	if q.after, err = inventory.TakeCopy(wholeTree(q.copy), q.own); err != nil {
		return err
	}
	<-q.flagged
	q.after.NoteFlags(q.advised)
	q.after.NoteWatchedAs(q.before)
	return q.points.during(ctx, failpoint.ShimRehearsed)
}

// wholeTree lists a session's processes, on the host, those included that have ended and weren't
// waited for.
func wholeTree(init int) []int { return append(descendants(init), init) }

// explain makes criu's failure one of the rehearsal.
func (q *quarantine) explain(err error) error {
	err = explain(q.images(), q.setup.Name, "restored", err)
	text, hint := driver.HintOf(err)
	e := &driver.Error{Kind: driver.Unrestorable, Text: strings.TrimSuffix(text, ": "+ErrPassing.Error()), Hint: hint}
	if hint == "" {
		e.Hint = notRehearsed
	}
	if errors.Is(err, ErrPassing) {
		e.Err = ErrPassing
	}
	return e
}

// kill ends the copy, and criu with it. Frozen first, none of it comes to an instruction.
func (q *quarantine) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), undoWait)
	defer cancel()
	return q.group.Kill(ctx)
}

// endCopy kills the copy and waits for its first process, which criu makes a child of the shim.
// A criu that fails, or is killed, may not have told of it. It is called while the thread lives
// that started criu, so that the child has one parent.
func (q *quarantine) endCopy() {
	if q.criu != nil { // it was asked for nothing
		q.criu.End()
	}
	if q.kill() != nil {
		return // end says what is left
	}
	for _, pid := range children(os.Getpid()) {
		if pid != q.init && within(pid) == initPID {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

// end removes all that the quarantine had.
func (q *quarantine) end() error {
	var errs []error
	if q.over != nil {
		q.endCopy()
		close(q.over)
	}
	if q.flagged != nil {
		<-q.flagged
	}
	if q.group != nil {
		if err := errors.Join(q.kill(), q.group.Remove()); err != nil {
			errs = append(errs, fmt.Errorf("remove what the rehearsal of session %s left: %w", q.setup.Name, err))
		}
	}
	if q.boot != nil {
		q.boot.tree.close()
	}
	if q.terminals != nil {
		q.terminals.Close()
	}
	q.network.Close()
	return errors.Join(append(errs, q.unmount())...)
}

// close closes what the shim holds of processes that it doesn't watch.
func (t *processes) close() {
	if t.status != nil {
		t.status.file.Close()
	}
	for _, c := range t.commands() {
		c.close()
	}
}

// RehearsalGroup is the name of the cgroup of a session's rehearsal below the parent.
func RehearsalGroup(uid schemas.UID) string { return "r-" + string(uid) }

// awaitWorker waits until the worker has read the image, which is rehearsed meanwhile.
func (d *dumper) awaitWorker(worker *control.Conn, dump *Dump) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	answer := make(chan error, 1)
	go func() {
		err := awaitAnswer(worker)
		if err != nil {
			cancel(err)
		}
		answer <- err
	}()
	if !dump.Rehearses {
		return <-answer
	}
	began := time.Now()
	differences, err := dump.rehearsal.run(ctx, dump.large)
	if err != nil {
		return err
	}
	warnings, err := d.rehearsals.judge(differences, dump.Warnings)
	if err != nil {
		return err
	}
	d.rehearsed = dump.digest
	dump.Warnings = append(dump.Warnings, warnings...)
	dump.RehearsalTook = time.Since(began)
	if err := d.points.at(failpoint.ShimCompared); err != nil {
		return err
	}
	if err := worker.Send(Message{Phase: PhaseRehearsed, Dump: dump}); err != nil {
		return err
	}
	return <-answer
}

func awaitAnswer(worker *control.Conn) error {
	var a Answer
	if _, err := worker.Receive(&a); err != nil {
		return fmt.Errorf("the worker is gone: %w", err)
	}
	if !a.Go {
		return errors.New("the worker cancelled the capture")
	}
	return nil
}

// lookBefore lists what the frozen session has, and decides whether it is rehearsed.
func (d *dumper) lookBefore(dump *Dump, which schemas.Rehearse) error {
	dump.digest = d.rehearsed
	if which == "" {
		return nil
	}
	var err error
	if dump.before, err = inventory.Take(wholeTree(d.tree.init)); err != nil {
		return err
	}
	dump.digest = d.rehearsals.digest(dump.before)
	dump.Rehearses = which != schemas.RehearseChanged || dump.digest != d.rehearsed
	return nil
}

// digest stands for what an inventory holds, on this host and with its criu.
func (r *rehearsals) digest(inv *inventory.Inventory) string {
	h := sha256.New()
	var host unix.Utsname
	if unix.Uname(&host) == nil {
		fmt.Fprintf(h, "%s %s\n", host.Release, host.Nodename)
	}
	for _, file := range r.setup.Criu {
		if st, err := os.Stat(file); err == nil {
			fmt.Fprintf(h, "%s %d %d\n", file, st.Size(), st.ModTime().UnixNano())
		}
	}
	sum := inv.Digest()
	h.Write(sum[:])
	return hex.EncodeToString(h.Sum(nil))
}
