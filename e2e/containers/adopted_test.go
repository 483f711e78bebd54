package containers

import (
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// A container that asks for it by its label becomes a session by itself, is suspended when
// it is idle, and comes back when someone wants it.
func TestLabelledContainer(t *testing.T) {
	e := dockertest.Shared(t)
	h := newHost(t, e)
	t.Cleanup(func() { h.remove("theirs", "theirdata") })
	_, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: "theirs",
		Config: &container.Config{Image: e.Busybox(t), Cmd: []string{"sh"}, Tty: true, OpenStdin: true, Labels: map[string]string{
			"diapause.session": "acme/web-42", "diapause.class": "automation",
		}},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{"theirdata:/data"}, RestartPolicy: container.RestartPolicy{Name: "always"}},
	})
	if err == nil {
		_, err = e.Client.ContainerStart(t.Context(), "theirs", client.ContainerStartOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var v schemas.View
	for end := time.Now().Add(limit); v.State != schemas.Running; time.Sleep(10 * time.Millisecond) {
		if v, _ = h.View("acme/web-42"); time.Now().After(end) { // it isn't there yet
			t.Fatalf("it doesn't become a session: %+v", v)
		}
	}
	if v.Class != "automation" || v.Driver != "docker" || v.Program != "theirs" {
		t.Errorf("it is a session as %+v", v)
	}
	if _, err := h.in("theirs", "echo kept >/data/f; echo kept >/f"); err != nil {
		t.Fatal(err)
	}
	if r := h.Do("adopt", "--container", "theirs", "--name", "again"); r.Code == 0 || !strings.Contains(r.Err, "is session acme/web-42 already") {
		t.Errorf("adopted twice: %+v", r)
	}
	h.must("suspend", "acme/web-42")
	if status, restart := h.state("theirs"); status != "exited" || restart != "no" {
		t.Errorf("the held container is %s, restart %s", status, restart)
	}
	h.must("ensure", "acme/web-42")
	h.runs("theirs")
	if out, err := h.in("theirs", "cat /data/f /f"); err != nil || out != "kept\nkept\n" {
		t.Errorf("it has %q, %v", out, err)
	}
	if said := h.typed("acme/web-42", "echo $((6*7))\n"); !strings.Contains(said, "\r\n42\r\n") {
		t.Errorf("its terminal says %q", said)
	}
	if _, restart := h.state("theirs"); restart != "always" {
		t.Errorf("its restart policy is %s", restart)
	}
}

// Bad use of the command line says what is wrong, and makes nothing.
func TestRefusedVerbs(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "--name", "x", "--driver", "docker", "--", "true"}, 2, "needs --image"},
		{[]string{"run", "--name", "x", "--image", "busybox:test", "-p", "a:b:c:d", "--", "true"}, 2, "publish"},
		{[]string{"run", "--name", "x", "--image", "busybox:test", "-v", "nonsense", "--", "true"}, 2, "volume"},
		{[]string{"run", "--name", "x", "--image", "no.such.invalid/image:1", "--", "true"}, 1, "is not on this engine, and can't be pulled"},
		{[]string{"run", "--name", "x", "--image", "busybox:test", "--network", "none", "--", "/no/such"}, 1, "command not found"},
		{[]string{"run", "--name", "x", "--image", "busybox:test", "--network", "none", "--on-host-loss", "resume", "--", "sleep", "1000"}, 2, "can't freeze itself"},
		{[]string{"adopt"}, 2, "--container"},
		{[]string{"adopt", "--container", "missing"}, 1, "there is no container missing"},
	} {
		if r := h.Do(c.args...); r.Code != c.code || !strings.Contains(r.Err, c.says) {
			t.Errorf("%q: %+v, want code %d and %q", c.args, r, c.code, c.says)
		}
	}
	if out := h.must("ls", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("there is %s", out)
	}
	if left := h.left(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
