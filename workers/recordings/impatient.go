package recordings

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/diapause/diapause/objectstore"
)

// answerWait is how long a client waits for one answer of the store until it is told that there is none.
const answerWait = 10 * time.Second

// impatient is a store of which one doesn't wait long for an answer.
type impatient struct {
	objectstore.Store
	wait time.Duration
}

var errNoAnswer = errors.New("the store doesn't answer")

// hurried gives a context that ends unless late is stopped in time.
func (i impatient) hurried(ctx context.Context) (hurried context.Context, late *time.Timer, cancel context.CancelCauseFunc) {
	ctx, cancel = context.WithCancelCause(ctx)
	return ctx, time.AfterFunc(i.wait, func() { cancel(errNoAnswer) }), cancel
}

func (i impatient) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	ctx, late, cancel := i.hurried(ctx)
	in, err := i.Store.Get(ctx, name, offset, length)
	if err != nil {
		late.Stop()
		defer cancel(nil)
		return nil, why(ctx, err)
	}
	return answer{in, late, cancel}, nil
}

func (i impatient) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	ctx, late, cancel := i.hurried(ctx)
	defer cancel(nil)
	defer late.Stop()
	err := i.Store.List(ctx, prefix, func(info objectstore.Info) error {
		late.Stop()
		return fn(info)
	})
	if err != nil {
		return why(ctx, err)
	}
	return nil
}

func why(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

// answer is what an impatient store gives: all of it comes in that time.
type answer struct {
	io.ReadCloser
	late   *time.Timer
	cancel context.CancelCauseFunc
}

func (a answer) Close() error {
	a.late.Stop()
	defer a.cancel(nil)
	return a.ReadCloser.Close()
}
