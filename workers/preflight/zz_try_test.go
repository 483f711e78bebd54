package preflight

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	if os.Getenv("TRY") == "" {
		return
	}
	for _, r := range strings.Split(os.Getenv("TRY"), ";") {
		role, arg, _ := strings.Cut(strings.TrimSpace(r), "=")
		t.Run(r, func(t *testing.T) {
			scratch := t.TempDir()
			if out, err := exec.Command("mount", "-t", "tmpfs", "scratch", scratch).CombinedOutput(); err != nil {
				t.Fatal(string(out))
			}
			defer exec.Command("umount", "-l", scratch).Run()
			os.Setenv("PREFLIGHT_SCRATCH", scratch)
			s := begin(t, role, arg)
			if os.Getenv("SHOW") != "" {
				o, _ := exec.Command("sh", "-c", "ps -e -o pid,ppid,stat,nlwp,cmd| grep -A3 program").Output()
				t.Log(string(o))
				for _, p := range s.pids(t) {
					b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
					fds, _ := exec.Command("sh", "-c", fmt.Sprintf("ls -l /proc/%d/fd; head -50 /proc/%d/fdinfo/*", p, p)).Output()
					t.Logf("%s\n%s", b, fds)
				}
			}
			dir := t.TempDir()
			link0, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", s.pid))
			pr, pw, _ := os.Pipe()
			defer pw.Close()
			cmd := exec.Command(criu(t), "dump", "--tree", fmt.Sprint(s.pid), "--images-dir", dir, "--log-file", "log", "-v4",
				"--file-locks", "--link-remap", "--ghost-limit", fmt.Sprint(ghostLimit), "--manage-cgroups=ignore", "--tcp-close",
				"--external", "mnt[/]:root", "--root", fmt.Sprintf("/proc/%d/root", s.pid))
			if os.Getenv("LEAVE") != "" {
				cmd.Args = append(cmd.Args, "--leave-stopped")
			}
			if extra := os.Getenv("EXTRA"); extra != "" {
				cmd.Args = append(cmd.Args, strings.Fields(extra)...)
			}
			err := cmd.Run()
			t.Logf("DUMP %q: %v %s", r, err, errs(dir+"/log"))
			if err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
			script := fmt.Sprintf(`mount --make-rprivate /; mount -t overlay overlay %[1]s/root -o lowerdir=/,upperdir=%[1]s/upper,workdir=%[1]s/work,xino=on && exec %[2]s restore -d -D %[3]s -o rlog -v4 --pidfile %[3]s/pid --file-locks --link-remap --manage-cgroups=ignore --tcp-close --external mnt[root]:%[1]s/root --root %[1]s/root --inherit-fd 'fd[0]:%[5]s' %[4]s`, scratch, criu(t), dir, os.Getenv("EXTRA"), link0)
			c := exec.Command("timeout", "-s", "KILL", "20", "unshare", "-m", "sh", "-c", script)
			c.Stdin = pr
			out, err := c.CombinedOutput()
			t.Logf("RESTORE %q: %v %s %s", r, err, out, errs(filepath.Join(dir, "rlog")))
			if err != nil && os.Getenv("SHOW") != "" {
				b, _ := exec.Command("tail", "-40", dir+"/rlog").Output()
				t.Log(string(b))
			}
			b, err := os.ReadFile(dir + "/pid")
			if os.Getenv("SHOW") != "" {
				fds, _ := exec.Command("sh", "-c", fmt.Sprintf("ls -l /proc/%[1]s/fd; head -50 /proc/%[1]s/fdinfo/*; ps -e -o pid,ppid,stat,nlwp,cmd| grep -A3 program", strings.TrimSpace(string(b)))).Output()
				t.Logf("RESTORED %s", fds)
			}
			time.Sleep(100 * time.Millisecond)
			st, _ := exec.Command("ps", "--no-headers", "-o", "stat,cmd", "-p", strings.TrimSpace(string(b))).Output()
			t.Logf("AFTER %s", st)
			exec.Command("kill", "-9", strings.TrimSpace(string(b))).Run()
		})
	}
}

func errs(file string) string {
	b, _ := os.ReadFile(file)
	var errs []string
	for l := range strings.Lines(string(b)) {
		if strings.Contains(l, "Error") && !strings.Contains(l, "RLIMIT_NOFILE") {
			errs = append(errs, strings.TrimSpace(l))
		}
	}
	if len(errs) > 6 {
		errs = errs[:6]
	}
	return strings.Join(errs, "\n      ")
}
