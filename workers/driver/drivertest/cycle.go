package drivertest

import (
	"context"
	"errors"
	"os"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

func testStart(b *bench) {
	asked := false
	i, err := b.d.Start(b.ctx, Fence("a", 3), b.Counting, func(context.Context) error {
		asked = true
		return nil
	})
	if err != nil {
		b.t.Fatalf("Start: %v", err)
	}
	b.stopLater("a")
	if !asked {
		b.t.Error("Start didn't ask before it ran the command")
	}
	if i.UID != "a" || i.Name != Fence("a", 3).Name || i.Epoch != 3 || i.State != driver.Running || i.PID <= 0 || i.Started.IsZero() || i.Exit != nil {
		b.t.Errorf("Start gives %+v", i)
	}
	if first, second := b.count("a"), b.count("a"); second <= first {
		b.t.Errorf("the session counts %d, then %d", first, second)
	}
	if now := b.state("a", driver.Running); now.PID != i.PID || now.Epoch != 3 {
		b.t.Errorf("Inspect gives %+v, Start gave %+v", now, i)
	}
}

func testMissing(b *bench) {
	_, err := b.d.Start(b.ctx, Fence("a", 1), b.Missing, func(context.Context) error {
		b.t.Error("begin was called for a command that doesn't exist")
		return nil
	})
	if driver.KindOf(err) != driver.Refused || err == nil {
		b.t.Errorf("Start of a missing command: %v, want an error of kind refused", err)
	}
	b.gone("a")
}

var errBegin = errors.New("someone else was first")

func refuse(context.Context) error { return errBegin }

func testBeginFailsAtStart(b *bench) {
	if _, err := b.d.Start(b.ctx, Fence("a", 1), b.Counting, refuse); !errors.Is(err, errBegin) {
		b.t.Errorf("Start gives %v, want what begin said", err)
	}
	b.gone("a")
	b.start("a")
}

func testCaptureAndRestore(b *bench) {
	b.start("a")
	before := b.count("a")
	img := b.capture(Fence("a", 2))
	if i := b.state("a", driver.Frozen); i.Epoch != 2 {
		b.t.Errorf("after a capture with epoch 2 the session has %d", i.Epoch)
	}
	b.stop(Fence("a", 2))
	b.gone("a")
	asked := false
	i, err := b.d.Restore(b.ctx, Fence("a", 3), b.Counting, img, schemas.BootResume, func(context.Context) error {
		asked = true
		return nil
	})
	if err != nil {
		b.t.Fatalf("Restore: %v", err)
	}
	if !asked || i.State != driver.Running || i.Epoch != 3 || i.PID <= 0 {
		b.t.Errorf("Restore gives %+v, asked before: %t", i, asked)
	}
	if after := b.count("a"); after <= before {
		b.t.Errorf("the session counted to %d, and %d after its restore", before, after)
	}
}

// testManyCycles has five of them, and ten with DIAPAUSE_LONG=1.
func testManyCycles(b *bench) {
	b.start("a")
	last, end := 0, uint64(12)
	if os.Getenv("DIAPAUSE_LONG") != "" {
		end = 22
	}
	for epoch := uint64(2); epoch < end; epoch += 2 {
		n := b.count("a")
		if n <= last {
			b.t.Fatalf("at epoch %d the session counts %d, %d before", epoch, n, last)
		}
		last = n
		img := b.capture(Fence("a", epoch))
		b.stop(Fence("a", epoch))
		b.restore(Fence("a", epoch+1), img, schemas.BootResume)
	}
}

func testFork(b *bench) {
	b.start("a")
	before := b.count("a")
	img := b.capture(Fence("a", 2))
	if err := b.d.Thaw(b.ctx, Fence("a", 2)); err != nil {
		b.t.Fatalf("Thaw: %v", err)
	}
	b.stopLater("b")
	b.restore(Fence("b", 1), img, schemas.BootFork)
	if n := b.count("a"); n <= before {
		b.t.Errorf("the origin counts %d, %d before", n, before)
	}
	if n := b.count("b"); n <= before {
		b.t.Errorf("the fork counts %d, its origin had %d", n, before)
	}
}

func testBeginFailsAtRestore(b *bench) {
	b.start("a")
	before := b.count("a")
	img := b.capture(Fence("a", 2))
	b.stop(Fence("a", 2))
	if _, err := b.d.Restore(b.ctx, Fence("a", 3), b.Counting, img, schemas.BootResume, refuse); !errors.Is(err, errBegin) {
		b.t.Errorf("Restore gives %v, want what begin said", err)
	}
	b.gone("a")
	b.restore(Fence("a", 4), img, schemas.BootResume)
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
}

func testThaw(b *bench) {
	b.start("a")
	before := b.count("a")
	b.capture(Fence("a", 2))
	for range 2 { // again does nothing
		if err := b.d.Thaw(b.ctx, Fence("a", 3)); err != nil {
			b.t.Fatalf("Thaw: %v", err)
		}
		b.state("a", driver.Running)
	}
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
	b.capture(Fence("a", 4))
}

func testCaptureAgain(b *bench) {
	b.start("a")
	before := b.count("a")
	b.capture(Fence("a", 2))
	img := b.capture(Fence("a", 3)) // as after a worker that died with the first
	b.stop(Fence("a", 3))
	b.restore(Fence("a", 4), img, schemas.BootResume)
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
}

func testContextEnds(b *bench) {
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.d.Start(over, Fence("a", 1), b.Counting, Begin); err == nil {
		b.t.Error("Start succeeds though its context had ended")
	}
	b.gone("a")
	b.start("a")
	before := b.count("a")
	if _, err := b.d.Capture(over, Fence("a", 2), &Image{}); err == nil {
		b.t.Error("Capture succeeds though its context had ended")
	}
	if err := b.d.Thaw(b.ctx, Fence("a", 2)); err != nil {
		b.t.Fatalf("Thaw: %v", err)
	}
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
	img := b.capture(Fence("a", 3))
	b.stop(Fence("a", 3))
	if _, err := b.d.Restore(over, Fence("a", 4), b.Counting, img, schemas.BootResume, Begin); err == nil {
		b.t.Error("Restore succeeds though its context had ended")
	}
	b.gone("a")
	b.restore(Fence("a", 5), img, schemas.BootResume)
	b.count("a")
}

func testSinkFails(b *bench) {
	b.start("a")
	before := b.count("a")
	full := errors.New("the store is full")
	img := &Image{Fail: func(image.Entry) error { return full }}
	if _, err := b.d.Capture(b.ctx, Fence("a", 2), img); !errors.Is(err, full) {
		b.t.Errorf("Capture gives %v, want what the sink said", err)
	}
	if err := b.d.Thaw(b.ctx, Fence("a", 2)); err != nil {
		b.t.Fatalf("Thaw: %v", err)
	}
	if n := b.count("a"); n <= before {
		b.t.Errorf("the session counts %d, %d before", n, before)
	}
	b.capture(Fence("a", 3))
}
