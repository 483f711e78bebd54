package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	"github.com/diapause/diapause/services/gate"
)

// How many connections a gateway has open: of one user of this machine, and of all. A browser that looks at a page has some six.
const (
	connectionsPerUser = 1024
	connectionsOfAll   = 4096
)

// bounded has a listener keep to the bounds of connections.
func bounded(l net.Listener, log *slog.Logger) net.Listener {
	return gate.Bound(l, connectionsPerUser, connectionsOfAll, cmp.Or(log, slog.New(slog.DiscardHandler)))
}

type userKey struct{}

// withUser keeps which user of this machine a connection is of.
func withUser(ctx context.Context, c net.Conn) context.Context {
	uid, err := strconv.ParseUint(gate.By(c), 10, 32)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, userKey{}, "uid "+strconv.FormatUint(uid, 10))
}

// whose is who is held to a rate: of requests of this machine's loopback the user, since all have one address; of others,
// also where a proxy names them, their address.
func whose(ctx context.Context, address string) string {
	at, err := netip.ParseAddr(address)
	user, known := ctx.Value(userKey{}).(string)
	if err == nil && at.Unmap().IsLoopback() && known {
		return user
	}
	return address
}
