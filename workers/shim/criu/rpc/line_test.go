package rpc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSameOptionsInBothWays has every option set: none may be left out of the
// command line.
func TestSameOptionsInBothWays(t *testing.T) {
	o := Options{
		ImagesDir: "/images", PID: 42, LogLevel: 2, LogFile: "log", Root: "/root", LeaveRunning: true, TCPEstablished: true,
		TCPClose: true, ShellJob: true, FileLocks: true, LinkRemap: true, GhostLimit: 1 << 29, FreezeCgroup: "/freezer",
		RestoreSibling: true, EmptyNetwork: true, External: []string{"mnt[/]:root", "b"}, IrmapScanPaths: []string{"/watched"},
		Inherit: []Inherited{{Key: "pipe:[1]", FD: 4}}, Timeout: 9,
	}
	got := o.arguments(DumpVerb)
	want := strings.Fields(`--no-default-config --images-dir . --log-file log -v2 --manage-cgroups=ignore
		--network-lock skip --skip-in-flight --tree 42 --root /root --leave-running --tcp-established --tcp-close --shell-job
		--file-locks --link-remap --ghost-limit 536870912 --freeze-cgroup /freezer --restore-sibling --empty-ns net --timeout 9
		--external mnt[/]:root --external b --irmap-scan-path /watched --inherit-fd fd[4]:pipe:[1]`)
	if !slices.Equal(got, want) {
		t.Errorf("the arguments are\n%q, want\n%q", got, want)
	}
	if got := (Options{LogFile: "log"}).arguments(RestoreVerb); !slices.Contains(got, "--restore-detached") || slices.Contains(got, "--tree") {
		t.Errorf("the arguments of a restore are %q", got)
	}
}

// fakeCriu runs the script it was given at some steps, as criu does.
func fakeCriu(t *testing.T, steps string, exit string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "criu")
	script := `for last in "$@"; do :; done
exec </dev/null
for step in ` + steps + `; do
	CRTOOLS_SCRIPT_ACTION=$step CRTOOLS_INIT_PID=42 "$last" 3>&- 4>&- || exit 3
done
exit ` + exit + "\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", path}
}

func runFake(t *testing.T, command []string, refuse string) (told []Notice, err error) {
	t.Helper()
	s, err := StartStreamed(command, DumpVerb, Options{ImagesDir: t.TempDir(), LogFile: "log"}, Here)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Wait(func(n Notice) error {
		told = append(told, n)
		if n.Step == refuse {
			return errRefused
		}
		return nil
	})
	return told, err
}

var errRefused = errors.New("someone else was first")

func TestStepsOfACommandLine(t *testing.T) {
	told, err := runFake(t, fakeCriu(t, "pre-dump setup-namespaces network-lock post-dump post-restore", "0"), "")
	want := []Notice{{SetupNamespaces, 42}, {PostDump, 42}, {PostRestore, 42}}
	if err != nil || !slices.Equal(told, want) {
		t.Errorf("steps %v, %v; want %v", told, err, want)
	}
}

func TestStepIsRefused(t *testing.T) {
	told, err := runFake(t, fakeCriu(t, "setup-namespaces post-dump post-restore", "0"), PostDump)
	var f *Failure
	if !errors.As(err, &f) || !errors.Is(err, errRefused) {
		t.Errorf("it ends with %v, want what the callback said", err)
	}
	if len(told) != 2 {
		t.Errorf("after a refusal it goes on: %v", told)
	}
}

func TestCommandLineFails(t *testing.T) {
	_, err := runFake(t, fakeCriu(t, "post-dump", "1"), "")
	var f *Failure
	if !errors.As(err, &f) || f.Caller != nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("it ends with %v", err)
	}
	if _, err := StartStreamed([]string{"/no/such/criu"}, DumpVerb, Options{ImagesDir: t.TempDir()}, Here); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without criu it begins with %v", err)
	}
}

func TestStartFails(t *testing.T) {
	_, err := StartStreamed(fakeCriu(t, "post-dump", "0"), DumpVerb, Options{ImagesDir: t.TempDir()}, func(*exec.Cmd) error { return errRefused })
	if !errors.Is(err, errRefused) {
		t.Errorf("StartStreamed gives %v", err)
	}
}
