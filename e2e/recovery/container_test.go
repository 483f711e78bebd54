package recovery

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// changing changes its files in every way that a layer can say, and its volume, if it has one;
// started again it tells what it finds.
const changing = `
if [ -e /data/kept ]; then
	echo "again: $(cat /etc/lower 2>&1) $(ls /home) $(cat /tmp/mine) $(stat -c %u:%a /data/kept) $(cat /data/kept) $KEY"
	sleep 100000
fi
mkdir -p /data; rm /etc/lower; rm -r /home; mkdir /home; echo new >/home/new; echo mine >/tmp/mine
echo volume >/data/kept; chmod 640 /data/kept; chown 7 /data/kept
echo changed; sleep 100000`

// startContainer starts a container, waits until it has changed its files, and suspends it. Its
// image is nowhere else then.
func (f *fixture) startContainer(t *testing.T, name string, more ...string) {
	t.Helper()
	base := f.engine.Busybox(t)
	args := append([]string{"run", "--name", name, "--image", base, "--container-name", name, "--idle", "never", "--network", "none", "-e", "KEY=value"}, more...)
	if _, err := f.Must(append(args, "--", "sh", "-c", changing)...); err != nil {
		t.Fatal(err)
	}
	f.until(t, name+" has changed its files", func() bool { return strings.Contains(f.Do("logs", name).Out, "changed") })
	if _, err := f.Must("suspend", name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.engine.Client.ImageRemove(t.Context(), base, client.ImageRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

// recoverContainer brings a container back, as the document says.
func (f *fixture) recoverContainer(t *testing.T, name, lineage string) {
	work := filepath.Join(f.dir, name)
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)\n## Containers\n.*?```sh\n(.*?)```").FindSubmatch(text(t))
	if script == nil {
		t.Fatalf("%s shows no steps for containers", document)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, "/usr/bin/python3", f.script, lineage, only(t, lineage), f.identity, work, "/"),
		exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", string(script[1])),
	} {
		cmd.Env = []string{
			"PATH=" + filepath.Join(f.dir, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin",
			"work=" + work, "name=" + name, "socket=" + strings.TrimPrefix(f.engine.URL, "unix://"),
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Cleanup(func() {
		if _, err := f.engine.Client.ContainerRemove(context.Background(), name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Error(err)
		}
	})
	f.until(t, name+" says what it found", func() bool { return f.said(ctx, t, name) != "" })
	want := "again: cat: can't open '/etc/lower': No such file or directory new mine 7:640 volume value\n"
	if got := f.said(ctx, t, name); got != want {
		t.Errorf("it found %q, want %q", got, want)
	}
}

// said gives what a container of the engine printed.
func (f *fixture) said(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, "docker", "--host", f.engine.URL, "logs", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
