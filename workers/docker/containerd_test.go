package docker

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// fakeContainerd answers every call in one way, and gives its socket.
func fakeContainerd(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "diapause-containerd-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answer, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // until it is closed
	t.Cleanup(func() {
		s.Close()
		<-done
		os.RemoveAll(dir)
	})
	return l.Addr().String()
}

// grpc answers with a message and a status.
func grpc(message []byte, status string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		_, _ = w.Write(message) // the client looks
		w.Header().Set("Grpc-Status", status)
		w.Header().Set("Grpc-Message", "said so")
	}
}

// A containerd that can't tell where a layer is for now is no reason to take the long way: the
// capture is tried again.
func TestContainerdDoesNotSay(t *testing.T) {
	for what, answer := range map[string]http.HandlerFunc{
		"an error":      grpc(nil, "14"),
		"nothing":       grpc(nil, "0"),
		"half a head":   grpc([]byte{0, 0, 0}, "0"),
		"half a field":  grpc(framed([]field{{1, []byte{4<<3 | lengthGiven, 9, 'x'}}}), "0"),
		"another kind":  grpc(framed([]field{{1, []byte{4<<3 | 3, 0}}}), "0"),
		"no gRPC":       func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"a cut answer":  func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"one with more": grpc(append(framed(nil), 'x'), "0"),
	} {
		t.Run(what, func(t *testing.T) {
			x := withContainerd(t, answer)
			x.start("a", withDocker(driver.Docker{}))
			_, err := x.d.Capture(t.Context(), drivertest.Fence("a", 2), &drivertest.Image{})
			if driver.KindOf(err) != driver.Transient || err == nil || !strings.Contains(err.Error(), "containerd doesn't say where the layer of container diapause-default-a is") {
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
	x := withContainerd(t, grpc(nil, "12"))
	x.start("a", withDocker(driver.Docker{}))
	if _, got := x.capture("a", 2); len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "all of the file system is in the snapshot") {
		t.Errorf("the warnings are %q", got.Warnings)
	}
}

// withContainerd gives an engine whose containers are said to be kept by a containerd, which
// gives that answer.
func withContainerd(t *testing.T, answer http.HandlerFunc) *tester {
	t.Helper()
	socket := fakeContainerd(t, answer)
	return testerOn(t, otherEngine(t, dockertest.Shared(t), func(path string, _ http.Header, body map[string]any) {
		if _, ok := body["State"]; ok {
			body["Storage"] = map[string]any{"RootFS": map[string]any{"Snapshot": map[string]any{"Name": snapshotter}}}
			delete(body, "GraphDriver")
		}
		if strings.HasSuffix(path, "/info") {
			body["Containerd"] = map[string]any{"Address": socket, "Namespaces": map[string]any{"Containers": "moby"}}
		}
	}))
}

// What containerd answers is read to its end, or refused.
func FuzzFields(f *testing.F) {
	f.Add([]byte{1<<3 | lengthGiven, 2, 'a', 'b', 2<<3 | varint, 200, 1, 3<<3 | fourBytes, 0, 0, 0, 0})
	f.Add([]byte{1<<3 | lengthGiven, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{1<<3 | eightBytes, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := fields(b, 1)
		if err != nil {
			return
		}
		for _, v := range found {
			if !bytes.Contains(b, v) {
				t.Errorf("%q isn't in %q", v, b)
			}
		}
	})
}
