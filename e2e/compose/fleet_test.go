package compose

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// machine is an engine with the compose plugin, and what its commands are told.
type machine struct {
	t      *testing.T
	engine *dockertest.Engine
	env    []string
}

// newMachine starts an engine without a bridge that leads out, where builds have the
// host's network. It has the images that images.sh has prepared, and keeps what it builds.
func newMachine(t *testing.T) machine {
	t.Helper()
	data := filepath.Join(prefix(), "compose", "engine")
	if _, err := os.Stat(data); err != nil {
		t.Fatalf("the images are missing (e2e/compose/images.sh prepares them): %v", err)
	}
	m := machine{t: t, engine: dockertest.New(t, "--data-root", data)}
	m.env = append(os.Environ(), "DOCKER_HOST="+m.engine.URL, "DOCKER_CONFIG="+withPlugin(t), "DOCKER_BUILDKIT=0", "BUILD_NETWORK=host", fmt.Sprint("NATS_PORT=", free(t)), fmt.Sprint("PROMETHEUS_PORT=", free(t)))
	return m
}

// withPlugin gives a configuration of the docker command, with the compose plugin.
func withPlugin(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	plugin, plugins := filepath.Join(prefix(), "compose", "docker-compose"), filepath.Join(dir, "cli-plugins")
	_, err := os.Stat(plugin)
	if err != nil {
		t.Fatalf("the compose plugin is missing (e2e/compose/install.sh puts it there): %v", err)
	}
	if err = os.Mkdir(plugins, 0o700); err == nil {
		err = os.Symlink(plugin, filepath.Join(plugins, "docker-compose"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// free gives a port of 127.0.0.1 that is free.
func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func prefix() string {
	if p := os.Getenv("DIAPAUSE_PREFIX"); p != "" {
		return p
	}
	return "/opt/diapause"
}

// make makes a target of the Makefile, as a person does.
func (m machine) make(target string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "make", "-C", top, target)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	m.t.Logf("make %s:\n%s", target, out)
	if err != nil {
		m.t.Fatalf("make %s: %v", target, err)
	}
	return string(out)
}

// nothing looks whether the fleet has left anything but its images.
func (m machine) nothing() {
	m.t.Helper()
	containers, err := m.engine.Client.ContainerList(m.t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, c := range containers.Items {
		m.t.Errorf("left: container %s", strings.Join(c.Names, " "))
	}
	volumes, err := m.engine.Client.VolumeList(m.t.Context(), client.VolumeListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, v := range volumes.Items {
		m.t.Errorf("left: volume %s", v.Name)
	}
	networks, err := m.engine.Client.NetworkList(m.t.Context(), client.NetworkListOptions{Filters: client.Filters{}.Add("type", "custom")})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, n := range networks.Items {
		m.t.Errorf("left: network %s", n.Name)
	}
}

// The whole of compose/, with each of the stores. What images.sh has prepared isn't built again.
func TestFleet(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		t.Log("the images are built and run with DIAPAUSE_LONG=1")
		return
	}
	m := newMachine(t)
	m.make("compose-down") // what a run has left that was killed
	for _, store := range []string{"versitygw", "minio"} {
		t.Run(store, func(t *testing.T) {
			m := m
			m.t, m.env = t, append(m.env, "STORE="+store)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(m.logs())
				}
			})
			m.make("compose-up")
			if out := m.make("compose-demo"); !strings.Contains(out, "running worker-2") {
				t.Error("the session didn't come to be on worker-2")
			}
			if store == "versitygw" {
				m.observed()
				m.oneLess()
			}
			m.make("compose-down")
			m.nothing()
		})
	}
}

// observed adds Prometheus to the fleet, and looks whether it reads all parts. Grafana isn't added: its image
// is of a registry.
func (m machine) observed() {
	m.t.Helper()
	compose := func(args ...string) (string, error) {
		cmd := exec.CommandContext(m.t.Context(), "docker", append([]string{"compose", "--project-directory", filepath.Join(top, "compose")}, args...)...)
		cmd.Env = m.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := compose("up", "--detach", "--wait", "--build", "prometheus"); err != nil {
		m.t.Fatalf("add Prometheus: %v\n%s", err, out)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		out, err := compose("exec", "-T", "prometheus", "promtool", "query", "instant", "http://127.0.0.1:9090", `sum(up{job="diapause"})`)
		if err == nil && strings.Contains(out, "{} => 6 ") {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("Prometheus reads of the six parts: %v\n%s", err, out)
		}
	}
}

// logs are what the parts have printed.
func (m machine) logs() string {
	cmd := exec.Command("docker", "compose", "--project-directory", filepath.Join(top, "compose"), "logs", "--no-color", "--tail", "50")
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}
