package script

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/diapause/diapause/e2e/stack"
)

// atOnce is how many scripts run beside each other: they wait more than they
// compute, but each suspend and resume takes a core.
const atOnce = "3"

// built is where TestMain left what it built.
var built struct{ dir, program string }

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := stack.Dir()
	if err == nil {
		defer os.RemoveAll(dir)
		built.dir = dir
		built.program, err = buildAll(filepath.Join(dir, "bin"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the scripts:", err)
		return 1
	}
	return m.Run()
}

func buildAll(bin string) (program string, err error) {
	if err := os.Mkdir(bin, 0o755); err != nil {
		return "", err
	}
	return stack.Build(bin)
}

func TestScripts(t *testing.T) {
	work := filepath.Join(built.dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata", WorkdirRoot: work, Setup: setup, RequireUniqueNames: true, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"up": cmdUp, "down": cmdDown, "killup": cmdKillUp, "powercut": cmdPowerCut, "ended": cmdEnded, "code": cmdCode, "until": cmdUntil, "waitfor": cmdWaitFor,
			"stays": cmdStays, "field": cmdField, "json": cmdJSON, "save": cmdSave, "counter": cmdCounter,
			"smallshims": cmdSmallShims, "http": cmdHTTP, "event": cmdEvent,
			"natspub": cmdPublish, "picture": cmdPicture, "pictured": cmdPictured, "points": cmdPoints, "terminal": cmdTerminal, "hostpids": cmdHostPIDs, "smalldisk": cmdSmallDisk, "resizedisk": cmdResizeDisk,
		},
		Condition: condition,
	})
}

// stackKey is where a script keeps its stack.
type stackKey struct{}

func stackOf(ts *testscript.TestScript) *stack.Stack { return ts.Value(stackKey{}).(*stack.Stack) }

func setup(env *testscript.Env) error {
	data := filepath.Join(env.WorkDir, "data")
	env.Setenv("PATH", filepath.Dir(built.program)+":"+os.Getenv("PATH"))
	env.Setenv("HOME", "/root")
	env.Setenv("TERM", "xterm")
	env.Setenv("DIAPAUSE_DATA", data)
	env.Setenv("COUNT", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done")
	s := stack.New(built.program, data)
	s.Dir, s.Env = env.WorkDir, env.Vars
	env.Values[stackKey{}] = s
	t := env.T()
	env.Defer(func() { finish(t, s) })
	return os.Chmod(env.WorkDir, 0o755)
}

// finish removes what the script had and fails it for what is left.
func finish(t testscript.T, s *stack.Stack) {
	err := errors.Join(s.Close(), dropDisk(s.Data))
	if f, ok := t.(interface{ Failed() bool }); ok && (f.Failed() || err != nil) {
		t.Log("the daemon printed:\n" + s.Log())
	}
	if err != nil {
		t.Fatal(errors.Join(errors.New("the script didn't end clean"), err))
	}
}
