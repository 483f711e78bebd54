package compose

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// option is one thing that a worker's container has, with what doctor says where it is missing. That may be
// a warning, where it is for some sessions alone.
type option struct {
	args []string // of docker run
	says string
	goes bool // doctor passes without it
}

// forSessions are capabilities that a worker has for what runs in sessions, and for loop
// devices: it works without, and doctor doesn't ask for them.
var forSessions = []string{"AUDIT_WRITE", "NET_RAW", "SYS_NICE"}

// said is what doctor says without what isn't a capability. Nothing is said of AppArmor, which isn't everywhere, nor of
// /run, where CRIU notes what the kernel can do.
var said = map[string]option{
	"seccomp=unconfined":            {says: "seccomp profile"},
	"systempaths=unconfined":        {says: "Can't open sysctl"},
	"apparmor=unconfined":           {goes: true},
	"/dev/fuse":                     {says: "let it have the device /dev/fuse", goes: true},
	"/dev/loop-control":             {says: "--device /dev/loop-control", goes: true},
	"b 7:* rmw":                     {says: "--device-cgroup-rule 'b 7:* rmw'", goes: true},
	"/sys/fs/cgroup:/sys/fs/cgroup": {says: "a writable /sys/fs/cgroup"},
	"/tmp":                          {says: "Fail to make dir /tmp"},
	"/run":                          {goes: true},
}

// options are all that compose.yaml gives a worker's container.
func options(t *testing.T) (all []option) {
	t.Helper()
	s := readFleet(t).Services["worker-1"]
	for _, c := range s.CapAdd {
		o := option{args: []string{"--cap-add", c}, says: "CAP_" + c + " is missing"}
		if slices.Contains(forSessions, c) {
			o.says, o.goes = "", true
		}
		if c == "MKNOD" {
			o.says = "make /dev/null" // of a root of its own
		}
		all = append(all, o)
	}
	add := func(flag, value string) {
		o, ok := said[value]
		if !ok {
			t.Errorf("a worker has %s %s, and no word of what is missing without", flag, value)
		}
		o.args = []string{flag, value}
		all = append(all, o)
	}
	for flag, values := range map[string][]string{"--security-opt": s.SecurityOpt, "--device": s.Devices, "--device-cgroup-rule": s.DeviceRules, "--tmpfs": s.Tmpfs} {
		for _, v := range values {
			add(flag, v)
		}
	}
	for _, v := range s.Volumes {
		if strings.HasPrefix(v, "/") {
			add("--volume", v)
		}
	}
	return all
}

// examined has doctor examine a worker's container.
func (m machine) examined(has []option) (string, error) {
	args := []string{"run", "--rm", "--init", "--network", "none", "--read-only", "--cgroupns", "host", "--cap-drop", "ALL", "--tmpfs", "/var/lib/diapause:exec,dev,suid", "--entrypoint", "/bin/sh"}
	for _, o := range has {
		args = append(args, o.args...)
	}
	// As worker.sh does before it starts a worker.
	const doctor = `chmod 700 /var/lib/diapause; for n in $(seq 0 63); do [ -e "/dev/loop$n" ] || mknod -m 600 "/dev/loop$n" b 7 "$n"; done; exec /bin/diapause doctor --docker none --data /var/lib/diapause/data`
	cmd := exec.CommandContext(m.t.Context(), "docker", append(args, "diapause/worker:local", "-c", doctor)...)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// oneLess takes each capability, option, device and mount from a worker, and looks whether doctor names it.
func (m machine) oneLess() {
	m.t.Helper()
	all := options(m.t)
	whole, err := m.examined(all)
	if err != nil {
		m.t.Fatalf("with all that a worker has doctor says (%v):\n%s", err, whole)
	}
	for i, less := range all {
		out, err := m.examined(slices.Delete(slices.Clone(all), i, i+1))
		if less.says != "" && (strings.Contains(whole, less.says) || !strings.Contains(out, less.says)) || (err == nil) != less.goes {
			m.t.Errorf("without %v doctor says (%v), want a word of %q:\n%s", less.args, err, less.says, out)
		}
	}
}
