package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Driver implements driver.Driver and its optional interfaces but Dialer.
type Driver struct {
	late     bool
	mu       sync.Mutex
	sessions map[schemas.UID]*tree
	coming   map[schemas.UID]bool // about to be among sessions
	came     *sync.Cond           // of mu
	epochs   map[schemas.UID]uint64
	exits    chan driver.Instance
	script   map[string][]Step
	seen     chan Call // nil unless Calls was asked for
	nextPID  int
	needs    []string // of its snapshots
}

// tree is one pretended process tree.
type tree struct {
	fence   driver.Fence
	state   driver.State
	pid     int
	started time.Time
	exit    *schemas.ExitStatus
	memory  memory
	cpu     time.Duration
	fenced  bool // it froze by itself
}

// memory is what a capture has to bring back.
type memory struct {
	Command []string `json:"command"`
	Counter int      `json:"counter"`
	Boot    string   `json:"boot"`
}

// Step is what the next call of a method does besides its work.
type Step struct {
	Before  error           // fail without having done anything
	After   error           // do the work, then fail
	Dies    error           // start or restore it, then fail with its end
	Undone  error           // let it begin, then fail with nothing here
	Entered chan<- struct{} // sent to (not closed) when the call has started
	Block   <-chan struct{} // wait for it before the work

	Warnings []schemas.Warning // of a capture
}

// Call is one call that the driver got.
type Call struct {
	Method string
	UID    schemas.UID
}

// New makes an empty host.
func New() *Driver {
	d := &Driver{
		sessions: map[schemas.UID]*tree{}, coming: map[schemas.UID]bool{}, epochs: map[schemas.UID]uint64{},
		exits: make(chan driver.Instance, 64), script: map[string][]Step{}, nextPID: 1000,
	}
	d.came = sync.NewCond(&d.mu)
	return d
}

// Late makes it a driver.Late, before any other call.
func (d *Driver) Late() { d.late = true }

// BeginsLate implements driver.Late.
func (d *Driver) BeginsLate() bool { return d.late }

// Script queues a step for the next call of a method: "Start", "Capture",
// "Thaw", "Restore", "Stop", "Recover", "Health", and "Inspect" that can only fail.
func (d *Driver) Script(method string, s Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script[method] = append(d.script[method], s)
}

// Calls gives a channel of the calls from now on. Its reader must keep up.
func (d *Driver) Calls() <-chan Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = make(chan Call, 1024)
	return d.seen
}

// enter takes the scripted step of a method and plays its first half.
func (d *Driver) enter(ctx context.Context, method string, uid schemas.UID) (Step, error) {
	d.mu.Lock()
	var s Step
	if q := d.script[method]; len(q) > 0 {
		s, d.script[method] = q[0], q[1:]
	}
	seen := d.seen
	d.mu.Unlock()
	if seen != nil {
		seen <- Call{method, uid}
	}
	if s.Entered != nil {
		s.Entered <- struct{}{}
	}
	if s.Block != nil {
		select {
		case <-s.Block:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
	if s.Before != nil {
		return s, s.Before
	}
	return s, ctx.Err()
}

// fence refuses an epoch that is lower than one seen before. Callers hold mu.
func (d *Driver) fence(f driver.Fence) error {
	if f.Epoch < d.epochs[f.UID] {
		return fmt.Errorf("session %s, epoch %d: %w", f.Name, f.Epoch, driver.ErrStale)
	}
	d.epochs[f.UID] = f.Epoch
	if t, ok := d.sessions[f.UID]; ok {
		t.fence.Epoch = f.Epoch
	}
	return nil
}

// Need has snapshots from now on need a feature of the host, which it has then.
func (d *Driver) Need(features ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.needs = features
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(context.Context) (schemas.Fingerprint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return schemas.Fingerprint{Arch: "fake", Kernel: "0", Driver: "fake", Keeps: schemas.KeepsMemory, Engine: "fake 1", CPU: d.needs, Base: "host"}, nil
}

// Health implements driver.Prober. An error that is scripted for it makes the session ill.
func (d *Driver) Health(ctx context.Context, uid schemas.UID) (driver.Health, error) {
	_, err := d.enter(ctx, "Health", uid)
	if ctx.Err() != nil {
		return driver.Health{}, ctx.Err()
	}
	if err != nil {
		return driver.Health{State: driver.Ill, Text: err.Error()}, nil
	}
	i, err := d.Inspect(ctx, uid)
	return driver.Health{State: driver.Unchecked, Began: i.Started, Text: "it runs"}, err
}

// Start implements driver.Driver. The command "missing" can't be executed.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	s, err := d.enter(ctx, "Start", f.UID)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(spec.Command) == 0 || spec.Command[0] == "missing" {
		return driver.Instance{}, &driver.Error{Kind: driver.Refused, Text: "command not found: " + strings.Join(spec.Command, " ")}
	}
	return d.launch(ctx, f, memory{Command: spec.Command, Boot: string(schemas.BootClean)}, begin, s)
}

func (d *Driver) launch(ctx context.Context, f driver.Fence, m memory, begin func(context.Context) error, s Step) (driver.Instance, error) {
	d.mu.Lock()
	err := d.fence(f)
	if _, there := d.sessions[f.UID]; err == nil && there {
		err = &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s is on this host already", f.Name)}
	}
	d.coming[f.UID] = err == nil
	d.mu.Unlock()
	if err == nil {
		err = begin(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.coming, f.UID)
	defer d.came.Broadcast()
	if err != nil {
		return driver.Instance{}, err
	}
	if s.Undone != nil {
		return driver.Instance{}, s.Undone
	}
	d.nextPID++
	t := &tree{fence: f, state: driver.Running, pid: d.nextPID, started: time.Now(), memory: m}
	d.sessions[f.UID] = t
	if s.Dies != nil {
		t.state, t.exit = driver.Exited, &schemas.ExitStatus{Code: 137, Signal: 9, Reason: s.Dies.Error()}
		return driver.Instance{}, s.Dies
	}
	return t.instance(), s.After
}

func (t *tree) instance() driver.Instance {
	i := driver.Instance{UID: t.fence.UID, Name: t.fence.Name, Epoch: t.fence.Epoch, State: t.state, Started: t.started, Exit: t.exit, Fenced: t.fenced}
	if t.state != driver.Exited {
		i.PID = t.pid
	}
	return i
}

// find gives a live session. Callers hold mu.
func (d *Driver) find(f driver.Fence) (*tree, error) {
	if err := d.fence(f); err != nil {
		return nil, err
	}
	t, ok := d.sessions[f.UID]
	if !ok || t.state == driver.Exited {
		return nil, fmt.Errorf("session %s: %w", f.Name, driver.ErrNotHere)
	}
	return t, nil
}

// Capture implements driver.Driver.
func (d *Driver) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	d.mu.Lock()
	t, err := d.find(f)
	if err == nil {
		t.state = driver.Frozen
	}
	d.mu.Unlock()
	if err != nil {
		return driver.Captured{}, err
	}
	s, err := d.enter(ctx, "Capture", f.UID)
	if err != nil {
		return driver.Captured{}, err
	}
	d.mu.Lock()
	data, err := json.Marshal(t.memory)
	d.mu.Unlock()
	if err != nil {
		return driver.Captured{}, fmt.Errorf("encode memory of %s: %w", f.Name, err)
	}
	e := image.Entry{Name: "criu/memory", Type: image.TypeFile, Mode: 0o600, Size: int64(len(data))}
	if err := sink.Add(e, strings.NewReader(string(data))); err != nil {
		return driver.Captured{}, err
	}
	fp, _ := d.Fingerprint(ctx)
	return driver.Captured{Frozen: time.Now(), Fingerprint: fp, Warnings: s.Warnings}, s.After
}

// Thaw implements driver.Driver.
func (d *Driver) Thaw(ctx context.Context, f driver.Fence) error {
	s, err := d.enter(ctx, "Thaw", f.UID)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.find(f)
	if err != nil {
		return err
	}
	t.state, t.fenced = driver.Running, false
	return s.After
}

// Restore implements driver.Driver.
func (d *Driver) Restore(ctx context.Context, f driver.Fence, _ schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	s, err := d.enter(ctx, "Restore", f.UID)
	if err != nil {
		return driver.Instance{}, err
	}
	d.mu.Lock()
	err = d.fence(f)
	d.mu.Unlock()
	if err != nil {
		return driver.Instance{}, err
	}
	r, err := src.Open("criu/memory")
	if err != nil {
		return driver.Instance{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return driver.Instance{}, fmt.Errorf("read memory of %s: %w", f.Name, err)
	}
	m := memory{}
	if err := json.Unmarshal(data, &m); err != nil {
		return driver.Instance{}, &driver.Error{Kind: driver.Refused, Text: "the image of " + f.Name.String() + " is not this driver's", Err: err}
	}
	m.Boot = string(boot)
	return d.launch(ctx, f, m, begin, s)
}

// Stop implements driver.Driver.
func (d *Driver) Stop(ctx context.Context, f driver.Fence) error {
	s, err := d.enter(ctx, "Stop", f.UID)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fence(f); err != nil {
		return err
	}
	delete(d.sessions, f.UID)
	return s.After
}

// Inspect implements driver.Driver.
func (d *Driver) Inspect(_ context.Context, uid schemas.UID) (driver.Instance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.script["Inspect"]; len(q) > 0 { // it is called too often to be told of
		d.script["Inspect"] = q[1:]
		return driver.Instance{}, q[0].Before
	}
	t, ok := d.sessions[uid]
	if !ok {
		return driver.Instance{}, driver.ErrNotHere
	}
	return t.instance(), nil
}

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context) ([]driver.Instance, error) {
	s, err := d.enter(ctx, "Recover", "")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []driver.Instance
	for _, t := range d.sessions {
		out = append(out, t.instance())
	}
	return out, s.After
}

// Exits implements driver.Watcher.
func (d *Driver) Exits(context.Context) <-chan driver.Instance { return d.exits }

// Observe implements driver.Observer.
func (d *Driver) Observe(_ context.Context, uid schemas.UID) (driver.Observation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.sessions[uid]
	if !ok {
		return driver.Observation{}, driver.ErrNotHere
	}
	return driver.Observation{RSS: 1 << 20, CPU: t.cpu, Processes: 1}, nil
}

// Count advances the counter of a running session, as its program would, and
// gives its value; a frozen or absent session doesn't move (ok false).
func (d *Driver) Count(uid schemas.UID) (n int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, there := d.sessions[uid]
	if !there || t.state != driver.Running {
		return 0, false
	}
	t.memory.Counter++
	return t.memory.Counter, true
}

// Counter gives the value of a session's counter as it stands; ok is false if the
// session is over or not here.
func (d *Driver) Counter(uid schemas.UID) (n int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, there := d.sessions[uid]
	if !there || t.state == driver.Exited {
		return 0, false
	}
	return t.memory.Counter, true
}

// Use makes the session look as if it had used the CPU.
func (d *Driver) Use(uid schemas.UID, cpu time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.sessions[uid]; ok {
		t.cpu += cpu
	}
}

// Exit ends a session as if by itself. Its record may say that it runs a moment before it does: Exit waits for it.
func (d *Driver) Exit(uid schemas.UID, code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.coming[uid] {
		d.came.Wait()
	}
	t, ok := d.sessions[uid]
	if !ok || t.state == driver.Exited {
		return
	}
	t.state, t.exit = driver.Exited, &schemas.ExitStatus{Code: code}
	select {
	case d.exits <- t.instance():
	default: // without a receiver; Recover reports it
	}
}

// Forget drops the steps that are queued and not played yet.
func (d *Driver) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.script)
}

// LetGo lets a frozen session run on, as its shim does when the worker ends in the
// middle of a capture.
func (d *Driver) LetGo(uid schemas.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.sessions[uid]; ok && t.state == driver.Frozen {
		t.state = driver.Running
	}
}

// Lose removes a session without a trace, as a reboot of the host would.
func (d *Driver) Lose(uid schemas.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, uid)
}
