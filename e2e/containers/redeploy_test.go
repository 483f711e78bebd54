package containers

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// service is a container of a user's compose project that asks to be a session.
type service struct {
	h       *host
	name    string // of the container
	session string
	number  int // how often it was deployed
}

// create makes its container as `docker compose up` does, which starts it later.
func (s *service) create(name string, labels map[string]string) (id string) {
	s.h.t.Helper()
	s.number++
	all := map[string]string{
		"com.docker.compose.project": "shop", "com.docker.compose.service": "web", "com.docker.compose.container-number": "1",
		"com.docker.compose.config-hash": fmt.Sprint("hash-", s.number), "diapause.session": s.session,
	}
	for k, v := range labels {
		all[k] = v
	}
	script := fmt.Sprintf("trap 'exit 0' TERM; echo %d >/version; while :; do sleep 0.05; done", s.number)
	got, err := s.h.e.Client.ContainerCreate(s.h.t.Context(), client.ContainerCreateOptions{
		Name:       name,
		Config:     &container.Config{Image: s.h.e.Busybox(s.h.t), Cmd: []string{"sh", "-c", script}, Labels: all},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{s.name + "data:/data"}, RestartPolicy: container.RestartPolicy{Name: "always"}},
	})
	if err != nil {
		s.h.t.Fatal(err)
	}
	return got.ID
}

func (s *service) start(container string) {
	s.h.t.Helper()
	if _, err := s.h.e.Client.ContainerStart(s.h.t.Context(), container, client.ContainerStartOptions{}); err != nil {
		s.h.t.Fatal(err)
	}
}

// redeploy does what `docker compose up -d` does after a change: it creates the new container under
// another name, stops and removes the old one, renames the new one and starts it.
func (s *service) redeploy() (id string) {
	s.h.t.Helper()
	ctx, c := s.h.t.Context(), s.h.e.Client
	id = s.create("0123456789ab_"+s.name, map[string]string{"com.docker.compose.replace": s.name})
	_, err := c.ContainerStop(ctx, s.name, client.ContainerStopOptions{})
	if err == nil {
		_, err = c.ContainerRemove(ctx, s.name, client.ContainerRemoveOptions{})
	}
	if err == nil {
		_, err = c.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: s.name})
	}
	if err != nil {
		s.h.t.Fatal(err)
	}
	s.start(id)
	return id
}

// runs waits until the session runs with a higher generation, and wants that of it.
func (s *service) runs(after schemas.View) (v schemas.View) {
	s.h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		v, _ = s.h.View(s.session) // it may not be there yet
		if v.State == schemas.Running && v.Op == "" && v.Generation > after.Generation {
			return v
		}
	}
	s.h.t.Fatalf("session %s is %s with %+v", s.session, v.State, v.Failure)
	return v
}

// said gives the reasons of the transitions to other containers.
func (s *service) said() (reasons []string) {
	s.h.t.Helper()
	var all []schemas.TransitionView
	if err := json.Unmarshal([]byte(s.h.must("history", s.session, "--json")), &all); err != nil {
		s.h.t.Fatal(err)
	}
	for _, t := range all {
		if t.Type == schemas.TRedeployed {
			reasons = append(reasons, t.Reason)
		}
	}
	return reasons
}

func (s *service) last(word string) {
	s.h.t.Helper()
	if all := s.said(); len(all) == 0 || !strings.Contains(all[len(all)-1], word) {
		s.h.t.Errorf("history says %q, want %q last", all, word)
	}
}

// The container that a redeploy puts in the place of a session's is the session from then on,
// whether that runs or is suspended then; and so is its own one that others start.
func TestRedeployed(t *testing.T) {
	e := dockertest.Shared(t)
	h := newHost(t, e)
	s := &service{h: h, name: "shop-web-1", session: "acme/shop"}
	t.Cleanup(func() { h.remove(s.name, s.name+"data") })
	s.start(s.create(s.name, nil))
	v := s.runs(schemas.View{})
	h.until(s.name, "[ -e /version ] && echo kept >/data/f")
	h.must("checkpoint", s.session)

	// While it runs.
	s.redeploy()
	w := s.runs(v)
	if w.UID != v.UID || w.Epoch <= v.Epoch || w.Boot != schemas.BootClean {
		t.Errorf("it was %+v, and is %+v", v, w)
	}
	s.last("container shop-web-1 took its place")
	if out := h.until(s.name, "cat /version /data/f"); out != "2\nkept" {
		t.Errorf("it has %q", out)
	}
	if out := h.must("snapshots", s.session, "--json"); strings.Count(out, `"id"`) != 1 {
		t.Errorf("its snapshots are %s", out)
	}

	// While it is suspended: what was suspended stays.
	h.until(s.name, "echo suspended >/data/f")
	h.must("suspend", s.session)
	head := h.view(s.session).Snapshot.ID
	second := s.create("shop-web-2", nil) // another container of the service
	s.start(second)
	h.until("shop-web-2", "echo from elsewhere >/data/f")
	if now := h.view(s.session); now.State != schemas.Suspended {
		t.Errorf("beside its container, another one made it %s", now.State)
	}
	h.remove("shop-web-2")
	s.redeploy()
	v = s.runs(w)
	s.last("container shop-web-1 took its place while it was suspended")
	if len(v.Warnings) != 1 || v.Warnings[0].Code != schemas.WarnRedeployed || !strings.Contains(v.Warnings[0].Text, head) {
		t.Errorf("it warns of %+v, want snapshot %q", v.Warnings, head)
	}
	if out := h.must("snapshots", s.session); !strings.Contains(out, head) {
		t.Errorf("of snapshot %s the list says\n%s", head, out)
	}
	h.must("rollback", s.session, head)
	if out := h.until(s.name, "cat /data/f"); out != "suspended" {
		t.Errorf("rolled back it has %q", out)
	}
	if status, restart := h.state(s.name); status != "running" || restart != "always" {
		t.Errorf("rolled back its container is %s, restart %s", status, restart)
	}

	// docker start of the held container.
	v = h.view(s.session)
	h.must("suspend", s.session)
	s.start(s.name)
	w = s.runs(v)
	s.last("its container shop-web-1 was started by others while it was suspended")
	if status, restart := h.state(s.name); status != "running" || restart != "always" {
		t.Errorf("started by others its container is %s, restart %s", status, restart)
	}
	h.must("suspend", s.session)
	h.must("ensure", s.session)
	h.until(s.name, "grep suspended /data/f")

	// A container that asks for nothing has the name: only a person makes it the session.
	h.takeAway(s.name)
	h.becomes(s.session, schemas.Failed)
	id := s.create(s.name, map[string]string{"diapause.session": ""})
	h.refuses("diapause adopt --container shop-web-1 --name acme/shop", "resume", s.session)
	h.must("adopt", "--container", id, "--name", s.session)
	s.last("container " + id + " took its place") // by the name that it was given

	// While the program doesn't run.
	v = h.view(s.session)
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	s.redeploy()
	if err := h.Up("--docker", e.URL); err != nil {
		t.Fatal(err)
	}
	s.runs(v)
	h.until(s.name, "grep -x 6 /version")
	h.must("audit", "--verify")
	h.must("rm", "--yes", s.session)
}

// A daemon that is killed after it recorded that the session runs in another container, or again in its
// own, goes on with that container, and it isn't started again.
func TestRedeployedAndKilled(t *testing.T) {
	e := dockertest.Shared(t)
	h := newHost(t, e)
	s := &service{h: h, name: "kill-web-1", session: "acme/kill"}
	t.Cleanup(func() { h.remove(s.name, s.name+"data") })
	s.start(s.create(s.name, nil))
	s.runs(schemas.View{})
	for what, do := range map[string]func(){
		"started":    func() { s.start(s.name) },
		"redeployed": func() { s.redeploy() },
	} {
		h.must("suspend", s.session)
		v := h.view(s.session)
		if err := h.Kill(); err != nil {
			t.Fatal(err)
		}
		h.Env = append(os.Environ(), failpoint.Variable+"="+string(failpoint.StartRecorded)+"=kill")
		err := h.Up("--docker", e.URL)
		h.Env = nil
		if err != nil {
			t.Fatal(err)
		}
		do()
		if err := h.Wait(); err == nil || h.Alive() {
			t.Fatalf("%s: it isn't killed: %v", what, err)
		}
		before := h.look(s.name)
		if err := h.Up("--docker", e.URL); err != nil {
			t.Fatal(err)
		}
		s.runs(v)
		if after := h.look(s.name); after.ID != before.ID || after.State.StartedAt != before.State.StartedAt || !after.State.Running {
			t.Errorf("%s: it was %+v, and is %+v", what, before.State, after.State)
		}
		if out := h.must("snapshots", s.session); !strings.Contains(out, v.Snapshot.ID) {
			t.Errorf("%s: of snapshot %s the list says\n%s", what, v.Snapshot.ID, out)
		}
	}
	h.must("audit", "--verify")
	h.must("rm", "--yes", s.session)
}

// look inspects a container.
func (h *host) look(name string) container.InspectResponse {
	h.t.Helper()
	got, err := h.e.Client.ContainerInspect(h.t.Context(), name, client.ContainerInspectOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return got.Container
}
