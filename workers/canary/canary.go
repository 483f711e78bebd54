package canary

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Driver is what the canary needs of a driver.
type Driver interface {
	driver.Driver
	driver.Dialer
}

// Options say how the canary is run.
type Options struct {
	// Words follow this program's own path on the command line that comes to
	// Program: {"canary-program"} for example.
	Words []string
	// Root is an empty directory, outside the driver's data directory, that gets
	// a copy of this program where a session can't reach the program itself: when
	// it lies on another file system than the root. The program must be
	// statically linked then.
	Root string
	Own  bool // use Root in any case
}

// Report is what the canary went through. Times are what a caller waits.
type Report struct {
	Engine   string        // "criu 4.2.1"
	Start    time.Duration // until its first instruction
	Freeze   time.Duration // from the order to the answer, part of Dump
	Dump     time.Duration // of freezing and capturing into memory
	Restore  time.Duration // until its first instruction
	Bytes    int64         // of what was captured
	Warnings []schemas.Warning
	Attempts int // 2 if something passed the second time only
}

// attempts is how often a failure that may pass is tried.
const attempts = 2

// Run takes a canary through a capture and a restore. An error says which step
// failed, and wraps the driver's; nothing of the canary is left in any case.
func Run(ctx context.Context, d Driver, o Options) (Report, error) {
	spec, err := o.spec()
	if err != nil {
		return Report{}, err
	}
	for n := 1; ; n++ {
		r := run{driver: d, spec: spec, report: Report{Attempts: n}}
		err := r.run(ctx)
		if err == nil || n == attempts || ctx.Err() != nil || driver.KindOf(err) != driver.Transient {
			return r.report, err
		}
	}
}

func (o Options) spec() (schemas.Spec, error) {
	spec := schemas.Spec{Env: []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=2"}, TTY: true, Cols: 500}
	path := ""
	if !o.Own {
		path = reachable()
	}
	if path == "" {
		if o.Root == "" {
			return spec, errors.New("run the canary: sessions can't see this program, and Root is empty")
		}
		if err := copySelf(filepath.Join(o.Root, "canary")); err != nil {
			return spec, err
		}
		if err := os.Chmod(o.Root, 0o755); err != nil {
			return spec, fmt.Errorf("make the canary's root: %w", err)
		}
		spec.Root, path = o.Root, "/canary"
	}
	spec.Command = append([]string{path}, o.Words...)
	return spec, nil
}

// run is one attempt.
type run struct {
	driver Driver
	spec   schemas.Spec
	fence  driver.Fence
	report Report
	asked  int // how often the program has answered
}

func (r *run) run(ctx context.Context) (err error) {
	id := "canary-" + crand.Text()[:10]
	r.fence = driver.Fence{
		UID: schemas.UID(id), Epoch: 1, Name: schemas.Name{Tenant: schemas.DefaultTenant, Session: schemas.SessionID(id)},
	}
	fp, err := r.driver.Fingerprint(ctx)
	if err != nil {
		return fmt.Errorf("ask the driver what it is: %w", err)
	}
	r.report.Engine = fp.Engine
	defer func() {
		if stopErr := r.stop(ctx); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("remove the canary: %w", stopErr))
		}
	}()
	before, err := r.start(ctx)
	if err != nil {
		return fmt.Errorf("start the canary: %w", err)
	}
	var img memoryImage
	if err := r.capture(ctx, &img); err != nil {
		return fmt.Errorf("dump the canary: %w", err)
	}
	if err := r.stop(ctx); err != nil {
		return fmt.Errorf("kill the dumped canary: %w", err)
	}
	r.fence.Epoch++
	if err := r.restore(ctx, &img); err != nil {
		return fmt.Errorf("restore the canary: %w", err)
	}
	if err := r.verify(ctx, before); err != nil {
		// Not what it was: that is never tried again until it passes.
		return &driver.Error{Kind: driver.Broken, Text: "ask the restored canary", Err: err}
	}
	return nil
}

// stopWait bounds the removal, which goes on when the caller has given up.
const stopWait = 30 * time.Second

func (r *run) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	return r.driver.Stop(ctx, r.fence)
}

func nothing(context.Context) error { return nil }

// start returns when the program has answered on its terminal and over TCP.
func (r *run) start(ctx context.Context) (Answer, error) {
	began := time.Now()
	if _, err := r.driver.Start(ctx, r.fence, r.spec, nothing); err != nil {
		return Answer{}, err
	}
	r.report.Start = time.Since(began)
	a, err := onTerminal(ctx, r.driver, r.fence.UID, "", wordReady)
	if err != nil {
		return a, err
	}
	r.asked = 1
	return a, r.verify(ctx, a)
}

func (r *run) capture(ctx context.Context, img *memoryImage) error {
	img.content = make(map[string][]byte)
	began := time.Now()
	got, err := r.driver.Capture(ctx, r.fence, img)
	if err != nil {
		return err
	}
	r.report.Dump, r.report.Freeze, r.report.Bytes = time.Since(began), got.FreezeTook, img.bytes
	r.report.Warnings = got.Warnings
	return nil
}

func (r *run) restore(ctx context.Context, img *memoryImage) error {
	began := time.Now()
	_, err := r.driver.Restore(ctx, r.fence, r.spec, img, schemas.BootResume, nothing)
	r.report.Restore = time.Since(began)
	return err
}

// verify asks over TCP and at the terminal, and compares with an answer from
// before.
func (r *run) verify(ctx context.Context, before Answer) error {
	tcp, err := byTCP(ctx, before.Listen)
	if err != nil {
		return err
	}
	if err := r.compare(before, tcp); err != nil {
		return fmt.Errorf("over TCP: %w", err)
	}
	nonce := crand.Text()
	typed, err := onTerminal(ctx, r.driver, r.fence.UID, wordTell+nonce, wordTold+nonce+" ")
	if err != nil {
		return err
	}
	if err := r.compare(tcp, typed); err != nil {
		return fmt.Errorf("at its terminal: %w", err)
	}
	return nil
}

// compare checks the next answer of the same program.
func (r *run) compare(before, now Answer) error {
	r.asked++
	switch {
	case now.Token != before.Token || now.Listen != before.Listen:
		return errors.New("it is another program than the one that was started")
	case !now.Intact:
		return fmt.Errorf("its %d bytes of memory are not what they were", memorySize)
	case now.Ticks < before.Ticks:
		return fmt.Errorf("its counter went back from %d to %d", before.Ticks, now.Ticks)
	case now.Asked != r.asked:
		return fmt.Errorf("it says that it was asked %d times, not %d", now.Asked, r.asked)
	case now.Child != before.Child || now.Heard != r.asked:
		return fmt.Errorf("its child is %d, asked %d times, not %d, asked %d times", now.Child, now.Heard, before.Child, r.asked)
	}
	return nil
}
