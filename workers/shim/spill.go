package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/workers/driver"
)

// spill is the directory into which the segments of one run of a session go, encrypted, until a worker has
// stored them. Its user serialises all calls.
type spill struct {
	dir    string
	to     age.Recipient
	lock   *os.File    // held as long as the shim lives
	number uint64      // of the last segment
	most   int64       // bytes of segments that may wait
	few    func() bool // little of the disk is free
	synced bool        // what the worker made is durable

	open *openSegment
	list typedList
}

// openSegment is a segment that isn't complete.
type openSegment struct {
	file *os.File
	*recording.Writer
	began time.Time // when its first event was
}

// A segment ends at segmentSize bytes, or sealLate after it began: what compresses well isn't that large for long. So many bytes
// of them may wait for a worker: then the oldest go.
const (
	segmentSize = 4 << 20
	spillSize   = 64 << 20
)

// openSpill opens the directory that the worker has made.
func openSpill(to driver.Recording) (*spill, error) {
	key, err := to.Key.Public()
	if err != nil {
		return nil, fmt.Errorf("record the terminal: %w", err)
	}
	lock, err := driver.LockRun(to.Dir, false)
	if err != nil {
		return nil, fmt.Errorf("record the terminal: %w", err)
	}
	s := &spill{dir: to.Dir, to: key, lock: lock, most: spillSize, few: func() bool { return littleFree(to.Dir) }}
	if s.number, err = lastNumber(to.Dir); err != nil {
		lock.Close()
		return nil, fmt.Errorf("record the terminal: %w", err)
	}
	return s, nil
}

// lastNumber gives the highest number of a segment that is there, or was: by an attempt that failed, of which the worker has some, too.
func lastNumber(dir string) (last uint64, err error) {
	var stored recording.Ref
	if note, err := os.ReadFile(filepath.Join(dir, driver.LastFile)); err == nil && json.Unmarshal(note, &stored) == nil {
		last = stored.Number
	}
	all, err := os.ReadDir(dir)
	for _, e := range all {
		digits, _, _ := strings.Cut(e.Name(), ".")
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			last = max(last, n)
		}
	}
	return last, err
}

// keepFree is the part of a disk, in percent, that is left free but for a segment of each session.
const keepFree = 5

// littleFree reports whether less than that is free.
func littleFree(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Bavail < fs.Blocks/100*keepFree
}

// add puts events into the segment. What can't be written is lost, with all of its segment: the next one begins at a
// later position in the output.
func (s *spill) add(marks []recorded, data []byte, began time.Time) error {
	for _, m := range marks {
		e := recording.Event{Time: began.Add(m.after), Code: m.code}
		if m.code == recording.Gap {
			e.Data = strconv.AppendInt(nil, int64(m.n), 10)
		} else {
			e.Data, data = data[:m.n], data[m.n:]
		}
		err := s.begin(m.at, e.Time)
		if err == nil {
			err = s.open.Add(e)
		}
		if err != nil {
			s.discard()
			return fmt.Errorf("record the terminal: %w", err)
		}
	}
	return nil
}

// full reports whether the segment ends with what is added next.
func (s *spill) full(now time.Time) bool {
	return s.open != nil && (s.open.Stored() >= segmentSize || now.Sub(s.open.began) >= sealLate)
}

// begin begins a segment at a position in the output, if there is none.
func (s *spill) begin(at int64, now time.Time) error {
	if s.open != nil {
		return nil
	}
	s.number++
	f, err := os.OpenFile(s.name(s.number, sealedPart), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w, err := recording.NewWriter(f, s.to, at)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.open = &openSegment{f, w, now}
	return nil
}

// The files of a segment: the first is one only with the second.
const (
	sealedPart = ".age"
	bodyPart   = ".json"
	listPart   = ".commands" // with a body that names it
)

func (s *spill) name(number uint64, part string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%012d", number)+part)
}

// commit ends the segment. When it returns nil, what was added is durable.
func (s *spill) commit() error {
	if s.open == nil {
		return nil
	}
	body, err := s.open.Close()
	if err == nil {
		err = s.open.file.Sync()
	}
	if err == nil {
		err = s.syncRun()
	}
	if err == nil {
		body.List = s.writeList()
	}
	var b []byte
	if err == nil {
		b, err = json.Marshal(body)
	}
	if err == nil {
		err = replaceSynced(s.name(s.number, bodyPart), b)
	}
	if err != nil {
		s.discard()
		return fmt.Errorf("spill what was recorded: %w", err)
	}
	s.open.file.Close()
	s.open = nil
	if body.List != nil {
		s.list = typedList{}
	}
	s.bound()
	s.notify()
	return nil
}

// syncRun makes durable what the worker made: until there is a segment it doesn't matter.
func (s *spill) syncRun() error {
	if s.synced {
		return nil
	}
	err := s.lock.Sync()
	for dir, i := filepath.Dir(s.dir), 0; i < 2 && err == nil; dir, i = filepath.Dir(dir), i+1 {
		err = syncDir(dir)
	}
	s.synced = err == nil
	return err
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// discard drops the segment that isn't complete.
func (s *spill) discard() {
	if s.open != nil {
		s.open.file.Close()
		s.open = nil
	}
	for _, part := range []string{bodyPart, bodyPart + ".new", sealedPart, listPart} {
		_ = os.Remove(s.name(s.number, part)) // without its body it is none
	}
}

// bound removes the oldest segments that wait, if they take too much.
func (s *spill) bound() {
	waiting, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	most := s.most
	if s.few() {
		most = min(most, segmentSize)
	}
	var sum int64
	newest := true
	slices.Reverse(waiting) // the newest first
	for _, e := range waiting {
		number, ok := strings.CutSuffix(e.Name(), sealedPart)
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			sum += info.Size()
		}
		if list, err := os.Stat(filepath.Join(s.dir, number+listPart)); err == nil {
			sum += list.Size()
		}
		if sum > most && !newest {
			_ = os.Remove(filepath.Join(s.dir, number+bodyPart)) // first: without it the others are none
			_ = os.Remove(filepath.Join(s.dir, number+listPart))
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
		}
		newest = false
	}
}

// notify tells a worker, if there is one, that there is a segment: one that comes later looks by itself.
func (s *spill) notify() {
	dir, err := unix.Open(filepath.Dir(filepath.Dir(s.dir)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.Sendto(fd, []byte(filepath.Base(filepath.Dir(s.dir))), 0, &unix.SockaddrUnix{Name: SocketPath(uintptr(dir), driver.NoticeSocket)})
}
