package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
)

// Recording says how a session's terminal is recorded on this host.
type Recording struct {
	// Dir is the folder of one run of a session, in which RunFile is. Sealed segments are spilled there:
	// NUMBER.age is the encrypted part, and NUMBER.json, which is there when that is durable, its
	// recording.Body. What is stored elsewhere is taken out, the lowest number first.
	Dir string `json:"dir"`
	// Key is what segments are encrypted to.
	Key image.LineageKey `json:"key"`
	// Input has what is typed recorded as well.
	Input bool `json:"input,omitempty"`
	// Redact has secrets taken out of what is recorded.
	Redact bool `json:"redact,omitempty"`
}

// RunFile describes the run, for who stores its segments. It is locked while more may come.
const RunFile = "run"

// LastFile is the recording.Ref of the last segment of the run that is stored elsewhere.
const LastFile = "last"

// NoticeSocket is beside the folders of sessions, two above Dir. It gets the name of the folder of
// a session when a segment was spilled there.
const NoticeSocket = "notice"

// ErrRecorded: more segments may come of a run.
var ErrRecorded = errors.New("the run is still recorded")

// LockRun says that segments may come, until what it returns is closed. With last set it says that none do, and fails with
// ErrRecorded if others say that some may.
func LockRun(dir string, last bool) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, RunFile))
	if err != nil {
		return nil, fmt.Errorf("open a recording: %w", err)
	}
	how := unix.LOCK_SH
	if last {
		how = unix.LOCK_EX
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrRecorded
		}
		return nil, fmt.Errorf("lock a recording: %w", err)
	}
	return f, nil
}
