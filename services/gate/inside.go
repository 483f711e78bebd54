package gate

import (
	"fmt"
	"net"

	"github.com/diapause/diapause/schemas"
)

// who is whose connections are counted together: a user's, or those of all sessions' programs.
type who struct {
	uid    UID
	inside bool
}

func (w who) String() string {
	if w.inside {
		return "what runs in sessions"
	}
	return fmt.Sprintf("uid %d", w.uid)
}

// whose says who a connection is counted for. Root passes on what runs in sessions, from an address of its own. Others who
// come from it gain nothing.
func (g *Gate) whose(uid UID, c net.Conn) who {
	remote, ok := c.RemoteAddr().(*net.TCPAddr)
	return who{uid, g.o.PerInside > 0 && uid == 0 && ok && remote.AddrPort().Addr().Unmap() == schemas.InsideSource()}
}

func (g *Gate) most(w who) int {
	switch {
	case w.inside:
		return g.o.PerInside
	case w.uid == Unknown && g.o.Elsewhere > 0:
		return g.o.Elsewhere
	}
	return g.o.PerUser
}
