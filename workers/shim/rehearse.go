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

// run rehearses. init is that of the session, on the host, before what its processes have, and
// large what went to the worker of the images, if any did. It returns what differs when nothing
// is left of the copy.
func (r *rehearsals) run(ctx context.Context, init int, before *inventory.Inventory, large *largeImages) ([]inventory.Difference, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rehearsalLimit, fmt.Errorf("the rehearsal took longer than %v", rehearsalLimit))
	defer cancel()
	const attempts = 3
	for i := 1; ; i++ {
		differences, err := r.once(ctx, init, before, large)
		if err == nil {
			return differences, nil
		}
		if ctx.Err() != nil || i == attempts || !errors.Is(err, ErrPassing) {
			return nil, err
		}
	}
}

func (r *rehearsals) once(ctx context.Context, init int, before *inventory.Inventory, large *largeImages) (differences []inventory.Difference, err error) {
	q := &quarantine{rehearsals: r, init: init, before: before, advised: map[int]bool{}}
	defer func() { err = errors.Join(err, q.end()) }()
	if err := q.prepare(ctx, large); err != nil {
		return nil, fmt.Errorf("prepare a rehearsal of session %s: %w", r.setup.Name, err)
	}
	if err := r.points.during(ctx, failpoint.ShimRehearses); err != nil {
		return nil, err
	}
	if err := q.restore(ctx); err != nil {
		return nil, err
	}
	return inventory.Compare(before, q.after, !q.meta.TCPEstablished), nil
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

// restore runs criu until the copy stands before its first instruction.
func (q *quarantine) restore(ctx context.Context) error {
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
	o := rest.restoreOptions(q.meta, in)
	o.ImagesDir = q.images()
	var p *rpc.Streamed
	over := make(chan struct{})
	defer close(over)
	defer q.endCopy()
	err := alone(q.init, q.before.Devices(), over, func() (err error) {
		p, err = rpc.StartHeld(q.setup.Criu, o, q.program.apart(q.group), in.files...)
		return err
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = q.kill() }) // endCopy tries again
	defer stop()
	reached := false
	err = p.Wait(func(n rpc.Notice) error {
		switch n.Step {
		case rpc.SetupNamespaces:
			if q.meta.EmptyNetwork {
				return loopbackOf(n.PID)
			}
		case rpc.PostRestore:
			q.copy = n.PID
		case rpc.PreResume:
			reached = true
			var err error
			if q.after, err = inventory.TakeCopy(wholeTree(q.copy), q.own); err == nil {
				q.before.NoteFlags(q.advised)
				q.after.NoteFlags(q.advised)
				err = q.points.during(ctx, failpoint.ShimRehearsed)
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
	if q.kill() != nil {
		return // end says what is left
	}
	for _, pid := range children(os.Getpid()) {
		if pid != q.init && within(pid) == initPID {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

// end removes all that the rehearsal had.
func (q *quarantine) end() error {
	var errs []error
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
	differences, err := d.rehearsals.run(ctx, d.tree.init, dump.before, dump.large)
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
