package run

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// ends are the two ways to a session, and note what goes over them.
type ends struct {
	err       error
	here, far int
}

func (e *ends) DialPort(context.Context, schemas.View, uint16) (*attach.PortConn, error) {
	e.here++
	return &attach.PortConn{}, e.err
}

type farEnd struct{ *ends }

func (e farEnd) Dial(context.Context, schemas.View, uint16) (net.Conn, error) {
	e.far++
	return nil, e.err
}

func TestNear(t *testing.T) {
	e := &ends{}
	d := near{Dialer: farEnd{e}, host: "here", here: e}
	if c, err := d.Dial(t.Context(), schemas.View{Host: "here"}, 80); err != nil || c == nil || e.here != 1 || e.far != 0 {
		t.Errorf("a session of this host: %v, %v, %+v", c, err, e)
	}
	if _, err := d.Dial(t.Context(), schemas.View{Host: "there"}, 80); err != nil || e.here != 1 || e.far != 1 {
		t.Errorf("one of another: %v, %+v", err, e)
	}
	e.err = attach.RefusedError("nothing listens")
	if c, err := d.Dial(t.Context(), schemas.View{Host: "here"}, 80); !errors.Is(err, ingress.ErrRefused) || c != nil {
		t.Errorf("a port that is closed: %v, %v", c, err)
	}
	e.err = errors.New("it isn't here")
	if c, err := d.Dial(t.Context(), schemas.View{Host: "here"}, 80); !errors.Is(err, e.err) || errors.Is(err, ingress.ErrRefused) || c != nil {
		t.Errorf("a session that isn't: %v, %v", c, err)
	}
}
