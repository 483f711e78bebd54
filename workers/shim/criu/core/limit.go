package core

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/diapause/diapause/workers/confine/limits"
)

// The fields of CRIU's messages, as its .proto files have them.
const (
	pstreePID     = 1 // of pstree_entry
	pstreeThreads = 5

	coreThread = 5 // of core_entry

	threadCreds  = 10 // of thread_core_entry
	threadMode   = 11
	threadFilter = 12

	credsFirstCap = 9 // of creds_entry: inheritable, permitted, effective, bounding
	credsLastCap  = 12
	credsAmbient  = 19
	credsNoNew    = 18

	entryFilters = 1 // of seccomp_entry

	filterCode  = 1 // of seccomp_filter
	filterNext  = 2 // the index of the one that was loaded after it: CRIU calls it prev
	filterFlags = 3
)

// The modes of seccomp.
const (
	modeNone   = 0
	modeFilter = 2
)

// threadSync has a filter loaded for all threads of a process.
const threadSync = 1

const filtersName = "seccomp.img"

// limiter changes the images of one session.
type limiter struct {
	dir    string
	limits limits.Limits
	had    string // digest of Diapause's own filter in the images

	file    []byte    // of the filters
	filters []message // all of them, by their index
	added   map[place]uint64
}

// place is where the filter was added.
type place struct {
	index int // of the filter after it, -1 for none
	sync  uint64
}

// Limit changes the images in dir. had is the digest of the filter that the session had from
// Diapause, empty if it had none.
func Limit(dir string, to limits.Limits, had string) error {
	l := &limiter{dir: dir, limits: to, had: had, added: map[place]uint64{}}
	if err := l.readFilters(); err != nil {
		return fmt.Errorf("read the image's filters of system calls: %w", err)
	}
	tree, err := os.ReadFile(filepath.Join(dir, "pstree.img"))
	if err != nil {
		return fmt.Errorf("read the image's processes: %w", err)
	}
	processes, err := parseFiles(tree)
	if err != nil {
		return fmt.Errorf("read the image's processes: %w", err)
	}
	for _, p := range processes {
		if err := l.process(p); err != nil {
			return fmt.Errorf("limit process %d: %w", p.number(pstreePID), err)
		}
	}
	return l.writeFilters()
}

func (l *limiter) readFilters() (err error) {
	l.file, err = os.ReadFile(filepath.Join(l.dir, filtersName))
	if err != nil {
		return err
	}
	entries, err := parseFiles(l.file)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		for _, f := range entry {
			if f.id() != entryFilters {
				continue
			}
			m, err := parse(f.bytes)
			if err != nil {
				return err
			}
			l.filters = append(l.filters, m)
		}
	}
	return nil
}

// writeFilters replaces the filters, if there is any.
func (l *limiter) writeFilters() error {
	if len(l.filters) == 0 {
		return nil
	}
	var all message
	for _, f := range l.filters {
		all = append(all, bytesField(entryFilters, f.encode()))
	}
	if err := os.WriteFile(filepath.Join(l.dir, filtersName), encodeFile(l.file, all), 0o600); err != nil {
		return fmt.Errorf("change the image's filters of system calls: %w", err)
	}
	return nil
}

// thread is the core image of one thread.
type thread struct {
	path string
	file []byte
	core message
	part message // its thread_core_entry
}

func (l *limiter) process(p message) error {
	var threads []*thread
	for _, f := range p {
		if f.id() != pstreeThreads {
			continue
		}
		t, err := l.open(f.number)
		if err != nil {
			return err
		}
		if t != nil {
			threads = append(threads, t)
		}
	}
	if len(threads) == 0 {
		return nil // it has ended, and wasn't waited for
	}
	if err := l.filterAll(threads); err != nil {
		return err
	}
	for _, t := range threads {
		if err := l.creds(t); err != nil {
			return err
		}
		t.core.setSub(coreThread, t.part)
		if err := os.WriteFile(t.path, encodeFile(t.file, t.core), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// open reads a thread; none is one that has ended.
func (l *limiter) open(tid uint64) (*thread, error) {
	t := &thread{path: filepath.Join(l.dir, fmt.Sprintf("core-%d.img", tid))}
	var err error
	if t.file, err = os.ReadFile(t.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	if t.core, err = parseFile(t.file); err != nil {
		return nil, err
	}
	if t.core.find(coreThread) < 0 {
		return nil, nil
	}
	t.part, err = t.core.sub(coreThread)
	if err == nil && t.part.find(threadCreds) < 0 {
		return nil, nil
	}
	return t, err
}

// filterAll has the threads of a process get the filter before their own ones. CRIU gives filters
// that are the same in all threads to the first, to be loaded for all.
func (l *limiter) filterAll(threads []*thread) error {
	if len(l.limits.Filter) == 0 {
		return nil
	}
	unfiltered := !slices.ContainsFunc(threads, func(t *thread) bool { return t.part.number(threadMode) != modeNone })
	for i, t := range threads {
		switch t.part.number(threadMode) {
		case modeFilter:
			index := int(t.part.number(threadFilter))
			if index >= len(l.filters) {
				return errors.New("its filter isn't in the image")
			}
			oldest := l.filters[index]
			if l.ours(oldest) {
				oldest[oldest.find(filterCode)].bytes = l.limits.Filter
				continue
			}
			if !l.isNew(oldest) {
				t.set(threadFilter, l.before(index, oldest.number(filterFlags)&threadSync))
			}
		case modeNone:
			if i > 0 && (unfiltered || l.synced(threads[0])) {
				continue // it gets the first one's
			}
			sync := uint64(0)
			if unfiltered {
				sync = threadSync
			}
			t.set(threadMode, modeFilter)
			t.set(threadFilter, l.before(-1, sync))
		}
	}
	return nil
}

// ours reports whether a filter is what the session had from Diapause.
func (l *limiter) ours(f message) bool {
	i := f.find(filterCode)
	return l.had != "" && i >= 0 && limits.Limits{Filter: f[i].bytes}.Digest() == l.had
}

// isNew reports whether a filter is today's.
func (l *limiter) isNew(f message) bool {
	i := f.find(filterCode)
	return i >= 0 && string(f[i].bytes) == string(l.limits.Filter)
}

// synced reports whether a thread's filters are loaded for all threads of its process.
func (l *limiter) synced(t *thread) bool {
	if t.part.number(threadMode) != modeFilter {
		return false
	}
	index := int(t.part.number(threadFilter))
	return index < len(l.filters) && l.filters[index].number(filterFlags)&threadSync != 0
}

// before gives the index of the filter, to be loaded before the one of an index.
func (l *limiter) before(index int, sync uint64) uint64 {
	key := place{index, sync}
	if at, there := l.added[key]; there {
		return at
	}
	f := message{bytesField(filterCode, l.limits.Filter)}
	if index >= 0 {
		f = append(f, numberField(filterNext, uint64(index)))
	}
	f = append(f, numberField(filterFlags, sync))
	at := uint64(len(l.filters))
	l.filters = append(l.filters, f)
	l.added[key] = at
	return at
}

// set sets a number, whether it is there or not.
func (t *thread) set(id, v uint64) {
	if t.part.find(id) < 0 {
		t.part = append(t.part, numberField(id, v))
	}
	t.part.setNumber(id, v)
}

// creds takes the capabilities that the limits don't have.
func (l *limiter) creds(t *thread) error {
	creds, err := t.part.sub(threadCreds)
	if err != nil {
		return err
	}
	words := map[uint64]int{} // seen of each set, the lowest first
	for i, f := range creds {
		if (f.id() < credsFirstCap || f.id() > credsLastCap) && f.id() != credsAmbient {
			continue
		}
		if f.kind() != kindVarint {
			return errors.New("its capabilities can't be decoded")
		}
		creds[i].number &= l.limits.Capabilities >> (32 * words[f.id()]) & (1<<32 - 1)
		words[f.id()]++
	}
	if l.limits.NoNewPrivs {
		if creds.find(credsNoNew) < 0 {
			creds = append(creds, numberField(credsNoNew, 1))
		}
		creds.setNumber(credsNoNew, 1)
	}
	t.part.setSub(threadCreds, creds)
	return nil
}
