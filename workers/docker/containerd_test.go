package docker

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// fakeContainerd doesn't say where a layer is.
type fakeContainerd struct {
	snapshots.UnimplementedSnapshotsServer
	code codes.Code
}

func (f *fakeContainerd) Mounts(context.Context, *snapshots.MountsRequest) (*snapshots.MountsResponse, error) {
	return nil, status.Error(f.code, "it was told to say so")
}

// withContainerd gives an engine whose containers are said to be kept by a containerd, which
// answers with that code.
func withContainerd(t *testing.T, code codes.Code) (x *tester, s *grpc.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "diapause-containerd-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s = grpc.NewServer()
	snapshots.RegisterSnapshotsServer(s, &fakeContainerd{code: code})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // until it is stopped
	t.Cleanup(func() {
		s.Stop()
		<-done
		os.RemoveAll(dir)
	})
	return testerOn(t, otherEngine(t, dockertest.Shared(t), func(path string, _ http.Header, body map[string]any) {
		if _, ok := body["State"]; ok {
			body["Storage"] = map[string]any{"RootFS": map[string]any{"Snapshot": map[string]any{"Name": snapshotter}}}
			delete(body, "GraphDriver")
		}
		if strings.HasSuffix(path, "/info") {
			body["Containerd"] = map[string]any{"Address": at, "Namespaces": map[string]any{"Containers": "moby"}}
		}
	})), s
}

// A containerd that can't tell where a layer is for now is no reason to take the long way: the
// capture is tried again.
func TestContainerdDoesNotSay(t *testing.T) {
	t.Parallel()
	for what, code := range map[string]codes.Code{"an error": codes.Internal, "no server": codes.OK} {
		t.Run(what, func(t *testing.T) {
			x, s := withContainerd(t, code)
			x.start("a", withDocker(dockerspec.Options{}))
			if code == codes.OK {
				s.Stop()
			}
			_, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), &drivertest.Image{})
			if driver.KindOf(err) != driver.Transient || err == nil || !strings.Contains(err.Error(), "ask containerd for the layer of container diapause-default-a") {
				t.Errorf("captured, it gives %v", err)
			}
			if i := must[driver.Instance](t)(x.d.Inspect(t.Context(), "a")); i.State != driver.Running {
				t.Errorf("it is %s", i.State)
			}
		})
	}
}

// One that doesn't know is asked for nothing more.
func TestContainerdDoesNotKnow(t *testing.T) {
	t.Parallel()
	x, _ := withContainerd(t, codes.Unimplemented)
	x.start("a", withDocker(dockerspec.Options{}))
	if _, got := x.capture("a", 2); len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0].Text, "all of the file system is in the snapshot") {
		t.Errorf("the warnings are %v", got.Warnings)
	}
}
