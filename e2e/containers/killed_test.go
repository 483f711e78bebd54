package containers

import (
	"os"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// counting counts in its layer and then in a volume. When it begins, the first must be
// where the second is, or one further: else what it begins from is not of one moment.
const counting = `n=$(cat /n 2>/dev/null || echo 0); i=$(cat /data/n 2>/dev/null || echo 0); [ $n -eq $i ] || [ $n -eq $((i+1)) ] || echo $n $i >>/torn
while :; do i=$((i+1)); echo $i >/n.new; mv /n.new /n; echo $i >/data/n.new; mv /data/n.new /data/n; sleep 0.01; done`

// moment is where the daemon is killed, and in the middle of what.
type moment struct {
	verb   string
	asleep bool
	at     failpoint.Name
}

// moments are those of the driver, and of the worker around it.
func moments(adopted bool) []moment {
	var all []moment
	add := func(verb string, asleep bool, at ...failpoint.Name) {
		for _, n := range at {
			all = append(all, moment{verb, asleep, n})
		}
	}
	add("suspend", false, failpoint.DockerAhead, failpoint.DockerPaused, failpoint.DockerAdded, failpoint.CaptureDurable, failpoint.SuspendRecorded, failpoint.ReapKilled)
	add("checkpoint", false, failpoint.DockerAdded, failpoint.CheckpointThawed)
	add("resume", true, failpoint.DockerMade, failpoint.DockerFilled, failpoint.ResumeRecorded, failpoint.DockerStarts, failpoint.DockerRuns)
	if adopted {
		add("suspend", false, failpoint.DockerHolding)
		add("resume", true, failpoint.DockerAside, failpoint.DockerSwapped, failpoint.DockerReplaces)
	} else {
		add("suspend", false, failpoint.DockerRemoved)
	}
	return all
}

// A container of our own: whenever the daemon is killed, what it counted is there, it is
// there once, and nothing stays paused or left behind.
func TestKilled(t *testing.T) {
	e := dockertest.Shared(t)
	h := newHost(t, e)
	h.bystanders()
	h.commit("killed:test", "bystander")
	before := h.everything()
	h.must("run", "--name", "work", "--image", "killed:test", "--container-name", "work", "--idle", "never", "--network", "none", "-v", "data:/data", "-v", "/anonymous", "--", "sh", "-c", counting)
	h.must("suspend", "work")
	h.removeImage("killed:test") // from now on it is there for the session alone, from the snapshot
	before = slices.DeleteFunc(before, func(s string) bool { return s == `image ["killed:test"]` })
	h.killAtAll(moments(false))
	h.must("rm", "--yes", "work")
	if after := h.everything(); !slices.Equal(after, before) {
		t.Errorf("there was %q, and is %q", before, after)
	}
}

// A container that something else started.
func TestAdoptedAndKilled(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	e := dockertest.Shared(t)
	h := newHost(t, e)
	_, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: "work", Config: &container.Config{Image: e.Busybox(t), Cmd: []string{"sh", "-c", counting}},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{"data:/data"}, RestartPolicy: container.RestartPolicy{Name: "always"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.remove("work", "data") })
	if _, err := e.Client.ContainerStart(t.Context(), "work", client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	h.must("adopt", "--container", "work", "--idle", "never")
	h.refuses("exec --tty work -- sh", "attach", "work")
	h.must("suspend", "work")
	h.killAtAll(moments(true))
	h.must("suspend", "work")
	h.must("rm", "--yes", "work")
	if status, restart := h.state("work"); status != "exited" || restart != "always" {
		t.Errorf("the container that was let go is %s, restart %s", status, restart)
	}
	if left := h.left(); len(left) != 2 {
		t.Errorf("%q is there", left)
	}
}

// killAtAll kills the daemon at each moment of a session that sleeps. What the engine has
// then is what it has of a session that sleeps or runs, and nothing else.
func (h *host) killAtAll(all []moment) {
	there := map[schemas.State][]string{schemas.Suspended: h.everything()}
	h.must("ensure", "work")
	last := h.number("work", "/data/n", 0)
	there[schemas.Running] = h.everything()
	for _, m := range all {
		if m.asleep {
			h.must("suspend", "work")
		}
		h.killAt(m)
		v := h.settle("work")
		if v.State != schemas.Running && v.State != schemas.Suspended {
			h.t.Fatalf("%s killed at %s: it is %s: %+v", m.verb, m.at, v.State, v.Failure)
		}
		if v.State == schemas.Running {
			h.runs("work")
		}
		if has := h.everything(); !slices.Equal(has, there[v.State]) {
			h.t.Errorf("%s killed at %s: it is %s, and there is %q, not %q", m.verb, m.at, v.State, has, there[v.State])
		}
		h.must("ensure", "work")
		h.runs("work")
		last = h.number("work", "/data/n", last)
		if out, err := h.in("work", "if [ -e /torn ]; then cat /torn; fi"); err != nil || out != "" {
			h.t.Errorf("%s killed at %s: its layer and its volume are not of one moment: %q, %v", m.verb, m.at, out, err)
		}
	}
	h.must("audit", "--verify")
}

// killAt starts the daemon so that it kills itself at the moment, begins the verb, and
// starts it again when it is gone.
func (h *host) killAt(m moment) {
	h.t.Helper()
	h.killIn(m.at, m.verb, "work")
}

// killIn starts the daemon so that it kills itself at a moment of what is asked of it, and
// starts it again when it is gone.
func (h *host) killIn(at failpoint.Name, ask ...string) {
	h.t.Helper()
	if err := h.Kill(); err != nil {
		h.t.Fatal(err)
	}
	h.Env = append(os.Environ(), failpoint.Variable+"="+string(at)+"=kill")
	err := h.Up("--docker", h.e.URL)
	h.Env = nil
	if err != nil {
		h.t.Fatalf("start with a failpoint at %s: %v", at, err)
	}
	came := make(chan stack.Result, 1)
	go func() { came <- h.Do(ask...) }()
	if err := h.Wait(); err == nil || h.Alive() {
		h.t.Fatalf("%q doesn't come to %s: %+v", ask, at, <-came)
	}
	<-came
	if err := h.Up("--docker", h.e.URL); err != nil {
		h.t.Fatalf("start again after a kill at %s: %v", at, err)
	}
}
