package terminal

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// stay connects to the session as often as it takes, and has it run when the client wants that.
func (s *socket) stay(ctx context.Context) error {
	news, err := s.Session.News(ctx)
	if err != nil {
		return err
	}
	for tries := 0; ; {
		v, err := s.running(ctx, news)
		if err != nil {
			return err
		}
		began, exit, err := s.converse(ctx, v)
		if exit != nil {
			return s.ended(ctx, exit)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if tries++; began {
			tries = 0
			s.woken()
		}
		if err != nil && (!lost(err) || tries > triesToJoin) {
			return err
		}
		pause(ctx, news, tryAgain)
	}
}

// lost reports whether another try may do.
func lost(err error) bool {
	var remote attach.RemoteError
	return errors.Is(err, attach.ErrLost) || errors.As(err, &remote)
}

// ended says that the session has ended by itself.
func (s *socket) ended(ctx context.Context, exit *schemas.ExitStatus) error {
	if err := s.say(ctx, Message{Type: TypeEnded, Exit: exit}); err != nil {
		return err
	}
	return errOver
}

// running returns when the session runs.
func (s *socket) running(ctx context.Context, news <-chan *schemas.Progress) (schemas.View, error) {
	for {
		v, err := s.Session.View(ctx)
		if err != nil {
			if err := s.hold(ctx, err, news); err != nil {
				return v, err
			}
			continue
		}
		if s.uid != "" && v.UID != s.uid || v.State == schemas.Deleted {
			return v, s.ended(ctx, nil)
		}
		if v.State != s.state {
			s.state, s.painted = v.State, false
			if err := s.say(ctx, Message{Type: TypeState, State: v.State, Reason: v.LastTransition.Reason}); err != nil {
				return v, err
			}
		}
		if err := s.last(ctx, v); err != nil {
			return v, err
		}
		switch v.State {
		case schemas.Running:
			return v, s.meet(ctx, v)
		case schemas.Exited, schemas.Failed:
			exit := &schemas.ExitStatus{}
			if v.Exit != nil {
				exit = &schemas.ExitStatus{Code: v.Exit.Code, Signal: v.Exit.Signal, Reason: v.Exit.Reason}
			}
			return v, s.ended(ctx, exit)
		}
		if err := s.wait(ctx, news); err != nil {
			if err := s.hold(ctx, err, news); err != nil {
				return v, err
			}
		}
	}
}

// meet says where the session is, if that is another host than before.
func (s *socket) meet(ctx context.Context, v schemas.View) error {
	was := s.host
	s.uid, s.host = v.UID, v.Host
	if was == "" || was == v.Host || s.Watch != nil {
		return nil
	}
	return s.say(ctx, Message{Type: typeMoved, Host: v.Host})
}

// last shows a client that watches, and has seen nothing yet, what the terminal of a session that sleeps showed last. Where that can't be read,
// the state says enough, and it isn't asked for again before that changes: the host reads an image for it.
func (s *socket) last(ctx context.Context, v schemas.View) error {
	if s.Watch == nil || s.Watch.Last == nil || s.painted || s.run != 0 || v.State != schemas.Suspended {
		return nil
	}
	s.painted = true
	head, paint, err := s.Watch.Last(ctx, v)
	if err != nil {
		return ctx.Err()
	}
	if err := s.say(ctx, Message{Type: typeSize, Rows: head.Rows, Cols: head.Cols}); err != nil {
		return err
	}
	return s.output(ctx, KindScreen, head.At, paint)
}

// hold tells an error that may pass, and waits for a moment; one that won't pass it returns.
func (s *socket) hold(ctx context.Context, err error, news <-chan *schemas.Progress) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	problem, final := s.Problem(err)
	if final {
		return err
	}
	if err := s.say(ctx, Message{Type: typeError, Problem: problem}); err != nil {
		return err
	}
	pause(ctx, news, lookAgain)
	return nil
}

// wait waits for a session that doesn't run to change, or wakes it when the client wants that: it says so, or types.
func (s *socket) wait(ctx context.Context, news <-chan *schemas.Progress) error {
	_, owes, typed := s.keys.state()
	if owes {
		return s.waking(ctx, news)
	}
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-s.wake:
		return s.waking(ctx, news)
	case <-typed:
	case <-news:
	case <-again.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// woken forgets a wish that it runs: it did, since that was asked. Else the first suspend after that would be undone.
func (s *socket) woken() {
	select {
	case <-s.wake:
	default:
	}
}

// waking wakes the session, and tells the client how that goes on.
func (s *socket) waking(ctx context.Context, news <-chan *schemas.Progress) error {
	done := make(chan error, 1)
	waking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, err := s.Session.Wake(waking)
		done <- err
	}()
	said := ""
	for {
		select {
		case err := <-done:
			return err
		case p := <-news:
			if p == nil || p.Stage == "" || p.Stage == said && p.Bytes == 0 {
				continue
			}
			said = p.Stage
			if err := s.say(ctx, Message{Type: typeStage, Stage: p.Stage, Bytes: p.Bytes, Of: p.Of}); err != nil {
				cancel()
				<-done
				return err
			}
		}
	}
}

// pause waits for news, but not for long.
func pause(ctx context.Context, news <-chan *schemas.Progress, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
	case <-ctx.Done():
	}
}
