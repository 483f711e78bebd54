package docker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// containerdWait bounds the wait for containerd's answer.
const containerdWait = 10 * time.Second

// containerd is the address of an engine's containerd.
type containerd struct {
	socket    string
	namespace string
}

// ask calls containerd's API.
func (c containerd) ask(ctx context.Context, call func(ctx context.Context, conn *grpc.ClientConn) error) error {
	ctx, done := context.WithTimeout(ctx, containerdWait)
	defer done()
	conn, err := grpc.NewClient("unix:"+c.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("use containerd at %s: %w", c.socket, err)
	}
	defer conn.Close()
	if err := call(metadata.AppendToOutgoingContext(ctx, "containerd-namespace", c.namespace), conn); err != nil {
		return fmt.Errorf("ask containerd at %s: %w", c.socket, err)
	}
	return nil
}

// never reports whether a call to containerd failed and would fail again.
func never(err error) bool {
	return slices.Contains([]codes.Code{codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.Unauthenticated}, status.Code(err))
}
