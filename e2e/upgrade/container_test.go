package upgrade

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
)

// containerFlags are flags of `run` for a container, of every kind that a record keeps.
var containerFlags = strings.Fields("--idle never --network none -e KEY=value --label mine=yes --hostname box --read-only --tmpfs /tmp:size=4m --cap-drop NET_RAW" +
	" --ulimit nofile=512:1024 --restart unless-stopped --memory 64M --pids 40 --shm-size 8M --add-host other:10.0.0.9 --init --health-cmd true --health-interval 1h")

// TestContainersAreTakenOver has the newer program go on with containers of the older one:
// one that runs, and one that is suspended and is made again from its options.
func TestContainersAreTakenOver(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	i := install(t)
	image := i.engine.Busybox(t)
	shapes, names := map[string]map[string]any{}, []string{"boxed", "ship"}
	for _, name := range names {
		args := append([]string{"run", "--name", name, "--image", image, "--container-name", "upgrade-" + name, "-v", "upgrade-" + name + ":/data"}, containerFlags...)
		i.must(append(args, "--", "sh", "-c", "echo $KEY begins >>/data/lives; sleep 100000")...)
		i.until("container "+name+" has written", func() bool { return i.inside(name, "cat", "/data/lives") == "value begins\n" })
		shapes[name] = i.shape(name)
	}
	i.must("suspend", "boxed")
	before := i.answers(names)
	i.upgrade(false)
	i.compare(before, i.answers(names))
	if got := i.inside("ship", "cat", "/data/lives"); got != "value begins\n" {
		t.Errorf("a container that ran has %q", got)
	}
	i.must("ensure", "boxed")
	i.must("suspend", "ship")
	i.must("ensure", "ship")
	for _, name := range names {
		i.is(name, schemas.Running)
		i.until("container "+name+" has started again", func() bool { return i.inside(name, "cat", "/data/lives") == "value begins\nvalue begins\n" })
		is := i.shape(name)
		for _, part := range slices.Sorted(maps.Keys(shapes[name])) {
			for _, p := range differing(name+"."+part, shapes[name][part], is[part], nil) {
				t.Error(p)
			}
		}
	}
	i.must("audit", "--verify")
}

// inside runs a command in a session's container and gives what it printed; what fails
// prints nothing.
func (i *installation) inside(name string, command ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := i.engine.Exec(ctx, "upgrade-"+name, command...)
	if err != nil {
		return ""
	}
	return out
}

// shape is how the engine has a session's container: what it was told to run it with.
func (i *installation) shape(name string) (parts map[string]any) {
	i.t.Helper()
	got, err := i.engine.Client.ContainerInspect(context.Background(), "upgrade-"+name, client.ContainerInspectOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"config": got.Container.Config, "host": got.Container.HostConfig, "mounts": got.Container.Mounts})
	if err == nil {
		err = json.Unmarshal(data, &parts)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return parts
}
