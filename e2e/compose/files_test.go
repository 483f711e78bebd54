package compose

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const top = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// service is what the tests look at of one in compose.yaml.
type service struct {
	Image       string
	Build       struct{ Context, Dockerfile, Target string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	CapAdd      []string `yaml:"cap_add"`
	NetworkMode string   `yaml:"network_mode"`
	Profiles    []string
	Devices     []string
	DeviceRules []string `yaml:"device_cgroup_rules"`
	Tmpfs       []string
	Privileged  bool
	SecurityOpt []string `yaml:"security_opt"`
	Healthcheck struct{ Test []string }
}

type fleet struct {
	Services map[string]service
	Volumes  map[string]any
}

func readFleet(t *testing.T) (f fleet) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "compose/compose.yaml")), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Services) < 10 {
		t.Fatalf("compose.yaml has %d services", len(f.Services))
	}
	return f
}

// stage is one of the Dockerfile, with the lines of those that it is made from.
type stage struct {
	from  string
	lines []string
}

var (
	fromLine = regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)$`)
	argLine  = regexp.MustCompile(`(?m)^ARG ([A-Z_]+)=(\S+)$`)
	variable = regexp.MustCompile(`\$\{([A-Z_]+)\}`)
)

func stages(t *testing.T) map[string]stage {
	t.Helper()
	out := map[string]stage{}
	var name string
	for line := range strings.Lines(read(t, "compose/Dockerfile")) {
		line = strings.TrimSpace(line)
		if m := fromLine.FindStringSubmatch(line); m != nil {
			name = m[2]
			out[name] = stage{from: m[1], lines: slices.Clone(out[m[1]].lines)}
		} else if name != "" {
			s := out[name]
			s.lines = append(s.lines, line)
			out[name] = s
		}
	}
	return out
}

// last gives the argument of the last line that begins with a word, "" if none does.
func (s stage) last(word string) (rest string) {
	for _, line := range s.lines {
		if r, ok := strings.CutPrefix(line, word+" "); ok {
			rest = r
		}
	}
	return rest
}

// has reports whether the stage copies a file to path.
func (s stage) has(path string) bool {
	return slices.ContainsFunc(s.lines, func(line string) bool {
		return strings.HasPrefix(line, "COPY ") && strings.HasSuffix(line, " "+path)
	})
}

// targets are the stages that a service may be built from: one for each store.
func targets(s service) []string {
	if s.Build.Target == "${STORE}" {
		return []string{"minio", "versitygw"}
	}
	return []string{s.Build.Target}
}

// Every image is built here, of a stage that is there, and runs as its own user unless it is
// the worker's.
func TestImages(t *testing.T) {
	all := stages(t)
	for name, s := range readFleet(t).Services {
		for _, target := range targets(s) {
			of, ok := all[target]
			if !ok {
				t.Errorf("%s: the Dockerfile has no stage %q", name, target)
				continue
			}
			if s.Image != "diapause/"+s.Build.Target+":${TAG}" {
				t.Errorf("%s: its image is %s", name, s.Image)
			}
			if _, err := os.Stat(filepath.Join(top, "compose", s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Error(err)
			}
			if user := of.last("USER"); target != "grafana" && (user == "65532:65532") == (target == "worker" || target == "chaos") {
				t.Errorf("%s: runs as %q", name, user)
			}
		}
	}
}

// What is built from elsewhere has a version, which is the one that the tests use.
func TestPinned(t *testing.T) {
	args := map[string]string{}
	for _, m := range argLine.FindAllStringSubmatch(read(t, "compose/Dockerfile"), -1) {
		args[m[1]] = m[2]
	}
	for name, in := range map[string]string{
		"NATS_VERSION": "services/go.mod", "MINIO_VERSION": "objectstore/storetest/server/install.sh", "VERSITYGW_VERSION": "objectstore/storetest/server/install.sh",
	} {
		if args[name] == "" || !strings.Contains(read(t, in), " "+args[name]) {
			t.Errorf("%s is %q: %s has another", name, args[name], in)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.work"))
	if version == nil || !regexp.MustCompile(`^golang:`+strings.TrimSuffix(version[1], ".0")+`\.\d+-bookworm$`).MatchString(args["GO_IMAGE"]) {
		t.Errorf("GO_IMAGE is %q, go.work has %q", args["GO_IMAGE"], version)
	}
	if !regexp.MustCompile(`^debian:\d+\.\d+-slim$`).MatchString(args["DEBIAN_IMAGE"]) {
		t.Errorf("DEBIAN_IMAGE is %q", args["DEBIAN_IMAGE"])
	}
	for name, s := range stages(t) {
		if _, ours := stages(t)[s.from]; !ours && s.from != "scratch" && !strings.HasSuffix(s.from, "_IMAGE}") {
			t.Errorf("stage %s is made from %s", name, s.from)
		}
	}
}

// Each service that runs on has a health check, whose program its image has.
func TestHealthChecks(t *testing.T) {
	all := stages(t)
	for name, s := range readFleet(t).Services {
		if s.Restart == "no" {
			continue
		}
		for _, target := range targets(s) {
			test := strings.Join(s.Healthcheck.Test, " ")
			if test == "" {
				_, command, _ := strings.Cut(all[target].last("HEALTHCHECK"), "CMD ")
				test = "CMD " + strings.NewReplacer(`"`, "", ",", "", "[", "", "]", "").Replace(command)
			}
			words := strings.Fields(test)
			if len(words) < 3 || words[0] != "CMD" || words[1] != "/bin/diapause" || words[2] != "ready" || !all[target].has(words[1]) {
				t.Errorf("%s (%s): its health check is %q", name, target, test)
			}
		}
	}
}

// No port is open beyond this machine, no part has more rights than it needs, and none but
// workers sees anything of the host.
func TestLeast(t *testing.T) {
	for name, s := range readFleet(t).Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s", name, p)
			}
		}
		worker := strings.HasPrefix(name, "worker-")
		if !s.ReadOnly || s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: read-only root %v, privileged %v, drops %v", name, s.ReadOnly, s.Privileged, s.CapDrop)
		}
		may := []string(nil)
		if disturbs := strings.HasPrefix(name, "chaos-"); disturbs != (s.NetworkMode == "service:"+strings.TrimPrefix(name, "chaos-")) {
			t.Errorf("%s: the network is %q", name, s.NetworkMode)
		} else if disturbs {
			may = []string{"NET_ADMIN"}
		}
		if !worker && (!slices.Equal(s.CapAdd, may) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"})) {
			t.Errorf("%s: %v, %v", name, s.CapAdd, s.SecurityOpt)
		}
		for _, v := range s.Volumes {
			if strings.ContainsAny(v[:1], "/.~") && !(worker && v == "/sys/fs/cgroup:/sys/fs/cgroup") {
				t.Errorf("%s: sees %s of the host", name, v)
			}
		}
		for key, value := range s.Environment {
			if regexp.MustCompile(`KEY|PASSWORD|SECRET|TOKEN`).MatchString(key) && !strings.HasPrefix(value, "/") {
				t.Errorf("%s: %s may be a secret", name, key)
			}
		}
	}
}

// Each part has its own secrets, read-only, and no other's; all volumes are named.
func TestSecrets(t *testing.T) {
	f := readFleet(t)
	used := map[string][]string{}
	for name, s := range f.Services {
		for _, v := range s.Volumes {
			volume, rest, _ := strings.Cut(v, ":")
			if strings.HasPrefix(volume, "/") {
				continue
			}
			if _, ok := f.Volumes[volume]; !ok {
				t.Errorf("%s: volume %s isn't declared", name, volume)
			}
			if used[volume] = append(used[volume], name); strings.HasPrefix(rest, "/secrets") && rest != "/secrets:ro" {
				t.Errorf("%s may change its secrets", name)
			}
		}
	}
	for volume := range f.Volumes {
		slices.Sort(used[volume])
		if used[volume] == nil {
			t.Errorf("volume %s isn't used", volume)
		}
	}
	for volume, want := range map[string][]string{
		"authority": {"setup"}, "system-secrets": {"setup", "streams"}, "nats-config": {"nats-1", "nats-2", "nats-3", "setup"},
		"scheduler-secrets": {"scheduler-1", "scheduler-2", "setup"}, "api-secrets": {"api-1", "api-2", "setup"}, "client-secrets": {"client", "setup"},
		"worker-1-secrets": {"setup", "worker-1"}, "worker-2-secrets": {"setup", "worker-2"}, "store-secrets": {"setup", "store"},
	} {
		if !slices.Equal(used[volume], want) {
			t.Errorf("volume %s: used by %v, want %v", volume, used[volume], want)
		}
	}
}

// Every variable of compose.yaml has a value and a word of explanation in .env, and none there
// is without use.
func TestVariables(t *testing.T) {
	explained := map[string]bool{}
	comment := false
	for line := range strings.Lines(read(t, "compose/.env")) {
		name, value, set := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case strings.HasPrefix(line, "#"):
			comment = true
		case set && (!comment || value == ""):
			t.Errorf(".env: %s has no comment or no value", name)
		case set:
			explained[name] = true
		default:
			comment = false
		}
	}
	used := map[string]bool{}
	for _, m := range variable.FindAllStringSubmatch(read(t, "compose/compose.yaml"), -1) {
		if used[m[1]] = true; !explained[m[1]] {
			t.Errorf(".env doesn't have %s", m[1])
		}
	}
	for name := range explained {
		if !used[name] {
			t.Errorf(".env: %s isn't used", name)
		}
	}
}

// check runs check.sh with an engine that answers everything, and devices in a directory.
func check(t *testing.T, devices string, env ...string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(top, "compose", "check.sh"))
	cmd.Env = append(os.Environ(), append(env, "PATH="+bin+":"+os.Getenv("PATH"), "COMPOSE_CHECK_DEV="+devices, "DOCKER_HOST=unix:///run/docker.sock")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What is missing is said at once, all of it, before anything is started.
func TestCheck(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	out, err := check(t, t.TempDir(), "NATS_PORT="+taken, "STORE=floppy")
	for _, want := range []string{"port " + taken + " of 127.0.0.1 is taken", "/dev/fuse is missing", "/dev/loop-control is missing", "STORE is floppy"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("check.sh: %v, without %q:\n%s", err, want, out)
		}
	}
	if out, err := check(t, t.TempDir(), "NATS_PORT=70000"); err == nil || !strings.Contains(out, "NATS_PORT is 70000") {
		t.Errorf("check.sh with no port: %v\n%s", err, out)
	}
	devices := t.TempDir()
	for _, name := range []string{"fuse", "loop-control"} {
		if err := os.Symlink("/dev/null", filepath.Join(devices, name)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := check(t, devices, "NATS_PORT=1"); err != nil || out != "" {
		t.Errorf("check.sh where all is there: %v\n%s", err, out)
	}
}
