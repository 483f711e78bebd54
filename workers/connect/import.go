package connect

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Import is a recording that the host has taken in.
type Import interface {
	// Says is what is said of it.
	Says() schemas.Imported
	// Keep has it be the recording of the session that was made of it.
	Keep(ctx context.Context) error
	// Close removes it, unless it was kept.
	Close()
}

// importing takes in the recording that a client sends, for a session of a name that is made of it meanwhile.
func (s *Server) importing(ctx context.Context, conn net.Conn, hello attach.Hello) error {
	n, err := schemas.ParseName(hello.Name)
	if err == nil {
		err = n.ValidateNew()
	}
	if err != nil {
		return err
	}
	if s.Import == nil {
		return fmt.Errorf("import a recording: host %s records nothing", s.Host)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in, err := attach.ReceiveImport(conn)
	if err != nil {
		return err
	}
	taken, err := s.Import(ctx, n, in)
	if err != nil {
		return err
	}
	defer taken.Close()
	if err := in.Taken(taken.Says()); err != nil {
		return err
	}
	if err := taken.Keep(ctx); err != nil {
		return err
	}
	return in.Kept()
}

// Importer takes in a recording for a session of a name.
type Importer func(ctx context.Context, n schemas.Name, r io.Reader) (Import, error)
