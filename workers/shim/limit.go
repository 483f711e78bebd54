package shim

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
)

// limitWait bounds the wait for memory that the kernel can still reclaim.
const limitWait = 5 * time.Second

// limit puts the session's limits in place: what starts or restores it doesn't
// fit into them.
func (s *session) limit() error {
	spec := s.setup.Spec
	limits := cgroup.Limits{Memory: spec.Memory, CPUs: spec.CPUs, Pids: spec.Pids}
	if limits == (cgroup.Limits{}) {
		return nil
	}
	err := s.group.SetLimits(limits)
	for deadline := time.Now().Add(limitWait); errors.Is(err, unix.EBUSY) && time.Now().Before(deadline); {
		time.Sleep(limitWait / 100)
		err = s.group.SetLimits(limits)
	}
	if err != nil && s.alive() == nil && !zombie(s.tree.init) {
		return &driver.Error{Kind: driver.Broken, Err: err, Text: fmt.Sprintf("session %s was started, and ended again since its limits can't be set", s.setup.Name)}
	}
	return nil
}
