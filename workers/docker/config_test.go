package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// inspect gives a session's container.
func (x *tester) inspect(name string) *container.InspectResponse {
	x.t.Helper()
	n := must[note](x.t)(x.d.notes.read(drivertest.Fence(name, 1).UID))
	got := must[client.ContainerInspectResult](x.t)(x.d.engine.ContainerInspect(x.t.Context(), n.Container, client.ContainerInspectOptions{}))
	return &got.Container
}

// network makes a network that was there before any session.
func (x *tester) network(name string) {
	x.t.Helper()
	if _, err := x.e.Client.NetworkCreate(x.t.Context(), name, client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if _, err := x.e.Client.NetworkRemove(afterwards(x.t), name, client.NetworkRemoveOptions{}); err != nil {
			x.t.Error(err)
		}
	})
}

// settings is what of a container's configuration has to come back, as text.
func settings(t *testing.T, c *container.InspectResponse) []string {
	t.Helper()
	config := *c.Config
	config.Labels = nil
	for k, v := range c.Config.Labels {
		if !slices.Contains(ownLabels, k) {
			config.Labels = with(map[string]string{k: v}, config.Labels)
		}
	}
	var out []string
	for what, v := range map[string]any{"config": config, "host": c.HostConfig} {
		var fields map[string]any
		data, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(data, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range fields {
			out = append(out, fmt.Sprintf("%s.%s: %v", what, k, v))
		}
	}
	for name, s := range c.NetworkSettings.Networks {
		aliases := given(c, s).Aliases
		slices.Sort(aliases)
		ip := netip.Addr{}
		if s.IPAMConfig != nil {
			ip = s.IPAMConfig.IPv4Address
		}
		out = append(out, fmt.Sprintf("network %s: %v %v", name, aliases, ip))
	}
	slices.Sort(out)
	return out
}

// All of a container's configuration comes back.
func TestConfigurationComesBack(t *testing.T) {
	x := newTester(t)
	x.network("front")
	x.network("back")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := dockerspec.With(schemas.Spec{
		Command: []string{"1000000"}, Env: []string{"A=b c", "SECRET=x"}, Dir: "/home", User: "guest", Memory: 64 << 20, CPUs: 0.5, Pids: 50, TTY: true,
	}, dockerspec.Options{
		Entrypoint: []string{"sleep"}, Volumes: []string{dir + ":/host:ro", "vol:/v", "/anonymous"}, Tmpfs: []string{"/mem:size=1m"},
		Networks: []string{"front", "back"}, Aliases: []string{"db", "cache"}, Restart: "on-failure:3",
		Labels: map[string]string{"com.example.a": "b", "com.docker.compose.project": "p"}, Ulimits: []string{"nofile=100:200"},
		CapAdd: []string{"NET_ADMIN"}, CapDrop: []string{"MKNOD"}, Devices: []string{"/dev/zero:/dev/nought:r"}, ExtraHosts: []string{"there:10.0.0.9"},
		Hostname: "box", Init: false, ShmSize: 8 << 20, HealthCmd: "true", HealthEach: 3600e9,
	})
	x.start("a", spec)
	before := settings(t, x.inspect("a"))
	old := x.inspect("a").ID
	img := x.suspend("a", 2)
	x.restore("a", 3, img, spec)
	if x.inspect("a").ID == old {
		t.Error("it is the same container")
	}
	same(t, "configuration", before, settings(t, x.inspect("a")))
	if out := inContainer(t, x.d, "a", "sh", "-c", "cat /host/f; echo; pwd; id -un; echo $SECRET; hostname; ls -l /dev/nought | cut -c1"); out != "of the host\n/home\nguest\nx\nbox\nc" {
		t.Errorf("in the container it is %q", out)
	}
}

// A network that isn't on the engine is made as it was, and goes with the session.
func TestNetworkIsCreatedAgain(t *testing.T) {
	x := newTester(t)
	subnet := netip.MustParsePrefix("10.213.7.0/24")
	_, err := x.e.Client.NetworkCreate(t.Context(), "own", client.NetworkCreateOptions{
		Driver: "bridge", Labels: map[string]string{"x": "y"}, IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := withDocker(dockerspec.Options{Networks: []string{"own"}, Aliases: []string{"me"}})
	x.start("a", spec)
	img := x.suspend("a", 2)
	if _, err := x.e.Client.NetworkRemove(t.Context(), "own", client.NetworkRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	x.restore("a", 3, img, spec)
	got := must[client.NetworkInspectResult](t)(x.e.Client.NetworkInspect(t.Context(), "own", client.NetworkInspectOptions{})).Network
	if got.Labels["x"] != "y" || len(got.IPAM.Config) != 1 || got.IPAM.Config[0].Subnet != subnet {
		t.Errorf("the network is %+v", got)
	}
	if out := x.sh("a", "nc -h 2>&1 | head -1; cat /etc/hosts | tail -1"); !strings.Contains(out, "10.213.7.") {
		t.Errorf("in the container it is %q", out)
	}
}

// What is published isn't restored where another listens, and nothing is left of the try.
func TestPortInUse(t *testing.T) {
	x := newTester(t)
	x.network("n")
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	spec := withDocker(dockerspec.Options{Networks: []string{"n"}, Publish: []string{fmt.Sprintf("127.0.0.1:%d:80", port)}})
	x.start("a", spec)
	img := x.suspend("a", 2)
	l = must[net.Listener](t)(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)))
	defer l.Close()
	recorded := false
	_, err := x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, img, schemas.BootResume, func(ctx ctx) error { recorded = true; return nil })
	if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), "is in use") || recorded {
		t.Errorf("on a port in use: %v, recorded: %t", err, recorded)
	}
	if left := must[[]string](t)(x.e.Leftovers(t.Context())); !slices.Equal(left, []string{"network n"}) {
		t.Errorf("there is %q", left)
	}
	l.Close()
	x.restore("a", 4, img, spec)
	// A fork takes a port of the engine's choice.
	x.t.Cleanup(func() { x.stop("b") })
	if _, err := x.d.Restore(t.Context(), drivertest.Fence("b", 1), spec, img, schemas.BootFork, drivertest.Begin); err != nil {
		t.Fatal(err)
	}
	for p, b := range x.inspect("b").HostConfig.PortBindings {
		if p.Num() != 80 || len(b) != 1 || b[0].HostPort == fmt.Sprint(port) {
			t.Errorf("the fork publishes %v at %v", p, b)
		}
	}
}

// Bind mounts: their configuration, with a warning, and their contents if that is asked for.
func TestBindMounts(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	dir := filepath.Join(t.TempDir(), "host")
	fill := func() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	spec := withDocker(dockerspec.Options{Volumes: []string{dir + ":/host"}})
	x.start("a", spec)
	img, got := x.capture("a", 2)
	if w := textOf(got.Warnings); !strings.Contains(w, "the contents of the bind mount /host") {
		t.Errorf("the warnings are %v", got.Warnings)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := x.d.Restore(t.Context(), drivertest.Fence("a", 3), spec, img, schemas.BootResume, drivertest.Begin); err == nil || !strings.Contains(err.Error(), dir+" is not on this host") {
		t.Errorf("without what is mounted: %v", err)
	}
	fill()
	spec = changed(t, spec, func(o *dockerspec.Options) { o.Binds = true })
	x.restore("a", 4, img, spec)
	img = x.suspend("a", 5)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	only := errors.New("only tried")
	_, err := x.d.Restore(t.Context(), drivertest.Fence("trial", 1), spec, img, schemas.BootTrial, func(ctx) error { return only })
	if _, there := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, only) || !errors.Is(there, fs.ErrNotExist) { // the host's are the session's own
		t.Errorf("a trial: %v; the file in what is mounted: %v", err, there)
	}
	x.restore("a", 6, img, spec)
	if out := x.sh("a", "cat /host/f; echo 2 >/host/f"); out != "1" {
		t.Errorf("the contents are %q", out)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 7)); err != nil {
		t.Fatal(err)
	}
	x.restore("a", 8, img, spec) // never over what is there
	if out := x.sh("a", "cat /host/f"); out != "2" {
		t.Errorf("what the host had is %q now", out)
	}
}
