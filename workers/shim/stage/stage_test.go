package stage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/workers/driver"
)

func TestLookUser(t *testing.T) {
	for user, want := range map[string]account{
		"":            {home: "/root"},
		"0":           {home: "/root"},
		"root":        {home: "/root"},
		"54321":       {uid: 54321, home: "/"},
		"54321:12":    {uid: 54321, gid: 12, home: "/"},
		"root:12":     {gid: 12, home: "/root"},
		"54321:":      {},
		"no-such":     {},
		"-1":          {},
		"4294967296":  {},
		"root:no-one": {},
	} {
		got, err := lookUser(user)
		if want.home == "" {
			if driver.KindOf(err) != driver.Refused || err == nil {
				t.Errorf("user %q gives %+v, %v, want a refusal", user, got, err)
			}
			continue
		}
		if err != nil || got.uid != want.uid || got.gid != want.gid || got.home != want.home {
			t.Errorf("user %q gives %+v, %v, want %+v", user, got, err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		command Command
		want    []string
	}{
		"nothing":  {Command{}, []string{"PATH=" + defaultPath, "HOME=/h", "GODEBUG=multipathtcp=0"}},
		"own":      {Command{Env: []string{"GODEBUG=x=1", "HOME=/me", "PATH=/bin"}}, []string{"GODEBUG=x=1", "HOME=/me", "PATH=/bin"}},
		"terminal": {Command{Terminal: "/dev/pts/0", Env: []string{"PATH=/b", "HOME=/h", "GODEBUG=x=1"}}, []string{"PATH=/b", "HOME=/h", "GODEBUG=x=1", "TERM=xterm-256color"}},
	} {
		if got := c.command.environment(account{home: "/h"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: the environment is %q, want %q", name, got, c.want)
		}
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"good": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/no/such:" + dir}
	for name, want := range map[string]string{
		"good": filepath.Join(dir, "good"), "./good": filepath.Join(dir, "good"), filepath.Join(dir, "good"): filepath.Join(dir, "good"),
		"plain": "no execute permission", "./plain": "no execute permission", "./missing": "not found", "missing": "not found in /no/such:", dir: "is a directory",
	} {
		got, err := Command{Argv: []string{name}, Env: env}.resolve(dir)
		if filepath.IsAbs(want) {
			if err != nil || got != want {
				t.Errorf("%s is %q, %v, want %s", name, got, err, want)
			}
		} else if err == nil || driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %q, %v, want %q", name, got, err, want)
		} else if status := map[bool]int{true: driver.NotFound, false: driver.NotExecutable}[strings.Contains(want, "not found")]; statusIn(err) != status {
			t.Errorf("%s has status %d, want %d", name, statusIn(err), status)
		}
	}
}

func statusIn(err error) int {
	var refusal *driver.Error
	if errors.As(err, &refusal) {
		return refusal.Status
	}
	return 0
}
