package programs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// PythonTests is Python's own tests of what it asks of the kernel, over and over: they were
// written by others, and each suspend comes in the middle of them.
func PythonTests() Program {
	p := &pythonTests{}
	return Program{
		Name: "Python's own tests", State: "test_posix, test_mmap, test_fcntl, test_pty, test_wait4 and test_fork1 pass, one of them being suspended and resumed",
		Needs: []string{python}, Version: []string{"sh", "-c", testsVersion},
		Flags: []string{"--env", "HOME=/tmp", "--env", "PYTHONDONTWRITEBYTECODE=1"}, Command: []string{"/bin/sh", "-c", testsLoop},
		Prepare: func(ctx context.Context, s *local.Session) error { return p.check(ctx, s, Round{}) }, Check: p.check,
	}
}

const (
	testsVersion = `/usr/bin/python3 -c 'import test.test_mmap' 2>/dev/null || { echo "its tests are missing: run e2e/compat/install.sh --all"; exit 1; }; /usr/bin/python3 --version`
	testsLoop    = `cd /tmp; n=0; while :; do
	/usr/bin/python3 -m test -v test_posix test_mmap test_fcntl test_pty test_wait4 test_fork1 >run.out 2>&1 </dev/null || mv run.out failed.out
	echo $((n += 1)) >done.new; mv done.new done
done`
)

type pythonTests struct{ done int }

// testsTime bounds one run of the tests.
const testsTime = 5 * time.Minute

// check waits until the run that was suspended has ended, if there was one.
func (p *pythonTests) check(ctx context.Context, s *local.Session, _ Round) error {
	out, err := s.Until(ctx, testsTime, fmt.Sprintf(`n=$(cat /tmp/done) && [ "$n" -gt %d ] && echo "$n"`, p.done))
	if err != nil {
		return fmt.Errorf("the tests don't end: %w", err)
	}
	if p.done, err = strconv.Atoi(strings.TrimSpace(out)); err != nil {
		return fmt.Errorf("count the runs of the tests: %w", err)
	}
	if failed, err := s.Shell(ctx, "grep -E '^(FAIL|ERROR)|Error:|failed' /tmp/failed.out | head -n 5"); err == nil && failed != "" {
		return errors.New("tests fail: " + failed)
	}
	return nil
}
