package events

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
)

// Options say where the server is and who speaks. The zero Options are the
// `diapause up` of this machine, without credentials: that is enough to say what
// is in use, and for nothing else.
type Options struct {
	URL   string // if empty: within a session the one that takes its activity, else nats.DefaultURL
	Creds string // a file with an nkey seed or a .creds file; none if empty
	// User is the NATS user that asks, where the server lets each user ask under its own name:
	// by default the name of the file of credentials.
	User string
	// By is who says it, shown by `diapause explain`: the program's name if empty.
	By string
	// OnError is told what the service can't see otherwise: that it lacks a
	// permission, that words were dropped. It is called from another goroutine and
	// must not wait. Nothing is told if it is nil.
	OnError func(error)
	// NATS are further options of the connection: TLS, names, handlers.
	NATS []nats.Option
}

// Client says what is in use and hears what becomes of it. It may be used from many
// goroutines at once.
type Client struct {
	nc      *nats.Conn
	own     bool // nc is closed with it
	by      string
	onError func(error)
	api     *API
	long    time.Duration // when a request counts as a connection

	// Of run's goroutine.
	acks   bool // leases are acknowledged
	silent int  // batches in a row that weren't

	listens atomic.Pointer[string] // where they are heard

	mu     sync.Mutex // guards what is below
	box    *outbox
	leases map[string]int // how many leases of this client are open on a subject
	next   time.Time      // when run comes back by itself; zero if it may not, or not in time
	told   uint64         // of the dropped words, those that OnError was told of
	closed bool

	wake    chan struct{}
	closing chan struct{}
	stopped chan struct{}
	left    error // why not all was sent; set before stopped is closed
}

// ErrClosed: the client was closed before.
var ErrClosed = errors.New("the client was closed")

// Connect makes a client with a connection of its own. A server that isn't there yet is no
// error: what is said is kept until it is. Credentials that can't be used are, and so is a
// server that refuses them, or that can't be trusted (natsconn.ErrRefused, ErrUntrusted).
func Connect(o Options) (*Client, error) {
	c := newClient(nil, o)
	opts := []nats.Option{
		nats.Name(c.by), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1), // the outbox keeps less, and the newest
		nats.ErrorHandler(c.failed), nats.PermissionErrOnSubscribe(true),
		nats.ClosedHandler(func(nc *nats.Conn) {
			select {
			case <-c.closing: // by Close: the last error is an older one
				return
			default:
			}
			if err := nc.LastError(); err != nil {
				c.tell(fmt.Errorf("the connection is closed for good: %w", err))
			}
		}),
	}
	if o.Creds != "" {
		auth, err := natsconn.Credentials(o.Creds)
		if err != nil {
			return nil, err
		}
		opts = append(opts, auth)
	}
	url := cmp.Or(o.URL, within(insideFile), nats.DefaultURL)
	opts = append(opts, o.NATS...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		why := natsconn.Explain(err, url, o.Creds)
		if errors.Is(why, natsconn.ErrRefused) || errors.Is(why, natsconn.ErrUntrusted) {
			return nil, why
		}
		if nc, err = nats.Connect(url, append(opts, nats.RetryOnFailedConnect(true))...); err != nil {
			return nil, natsconn.Explain(err, url, o.Creds)
		}
	}
	c.nc, c.api.nc, c.own, c.acks = nc, nc, true, o.Creds != ""
	go c.run()
	return c, nil
}

// New makes a client that uses a connection of the service's own, and leaves it
// open. Of o it uses By, User and OnError.
func New(nc *nats.Conn, o Options) *Client {
	o.Creds = "" // the connection's are not known
	c := newClient(nc, o)
	go c.run()
	return c
}

func newClient(nc *nats.Conn, o Options) *Client {
	return &Client{
		nc: nc, by: cmp.Or(o.By, filepath.Base(os.Args[0])), onError: o.OnError, api: newAPI(nc, o), long: long,
		box: newOutbox(), leases: map[string]int{},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// failed is told by the connection what went wrong beside the calls.
func (c *Client) failed(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !c.api.pending.refused(err) && !c.deaf(err) { // else it asks in another way, or goes on without
		c.tell(err)
	}
}

func (c *Client) tell(err error) {
	if c.onError != nil {
		c.onError(err)
	}
}

// Session is one session as this client speaks of it.
type Session struct {
	c    *Client
	name schemas.Name
}

// Session gives the session of a name, "tenant/id", or "id" for the default tenant.
// It need not exist.
func (c *Client) Session(name string) (Session, error) {
	n, err := schemas.ParseName(name)
	return Session{c, n}, err
}

// Name gives the session's name.
func (s Session) Name() string { return s.name.String() }

// How says more of what happened.
type How func(*schemas.Activity)

// Reconnected: a program came back by itself, not a person. It neither counts nor
// wakes.
func Reconnected(a *schemas.Activity) { a.Intent = schemas.IntentReconnect }

// Because gives the reason that `diapause explain` shows.
func Because(reason string) How { return func(a *schemas.Activity) { a.Reason = reason } }

// Input: a person typed or clicked. It counts, and wakes.
func (s Session) Input(how ...How) { s.say(schemas.KindInput, how) }

// Exec: a command was run in it. It counts, and wakes.
func (s Session) Exec(how ...How) { s.say(schemas.KindExec, how) }

// HTTP: a request for it arrived. It counts, and wakes.
func (s Session) HTTP(how ...How) { s.say(schemas.KindHTTP, how) }

// Heartbeat: a page that shows it is visible. It counts, and doesn't wake.
func (s Session) Heartbeat(how ...How) { s.say(schemas.KindHeartbeat, how) }

// Output: it printed something. It neither counts nor wakes, unless a policy says so.
func (s Session) Output(how ...How) { s.say(schemas.KindOutput, how) }

// Agent: an agent begins or ends a run, or is about to act, or has acted. The
// session's policy may have a checkpoint made of it; nothing waits for that. Run says
// which run, and OfAction which action.
func (s Session) Agent(t schemas.Trigger, how ...How) error {
	if !t.Known() {
		return fmt.Errorf("trigger %q: want run_start, run_end, before, after or manual", t)
	}
	a := s.c.activity(how)
	s.c.put(word{subject: schemas.ActivitySubject(s.name, schemas.KindAgent, string(t)), about: a.RunID + " " + a.Action, data: encode(a)})
	return nil
}

// Run gives the id of an agent's run.
func Run(id string) How { return func(a *schemas.Activity) { a.RunID = id } }

// OfAction gives the name of what an agent does.
func OfAction(name string) How { return func(a *schemas.Activity) { a.Action = name } }

func (s Session) say(k schemas.Kind, how []How) {
	a := s.c.activity(how)
	s.c.put(word{subject: schemas.ActivitySubject(s.name, k, ""), data: encode(a), weak: a.Intent != ""})
}

func (c *Client) activity(how []How) schemas.Activity {
	a := schemas.Activity{By: c.by}
	for _, h := range how {
		h(&a)
	}
	for _, text := range []*string{&a.Reason, &a.By, &a.RunID, &a.Action} {
		*text = schemas.Shown(*text) // readers cut it, too, and a message has its limit
	}
	return a
}

// headersMost is more than the headers of a message take, in bytes.
const headersMost = 64

// encode leaves out texts that a message of a client without credentials has no room for.
func encode(a schemas.Activity) []byte {
	var data []byte
	for _, text := range []*string{nil, &a.Reason, &a.By, &a.RunID} {
		if text != nil {
			*text = ""
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(a); err != nil {
			return nil // an Activity is always encodable; the subject alone says what counts
		}
		if data = bytes.TrimSpace(b.Bytes()); len(data) <= schemas.MaxUncredentialed-headersMost {
			break
		}
	}
	return data
}

// put has a word said when it may be.
func (c *Client) put(w word) {
	c.mu.Lock()
	if !c.closed {
		c.box.put(w, time.Now())
	}
	soon := c.next.IsZero() || c.box.soonest().Before(c.next)
	c.mu.Unlock()
	if !soon {
		return // the sender comes back for it by itself: it isn't woken for each of many words
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flushLimit is how long the server may take to say that it has read a batch.
const flushLimit = 5 * time.Second

// run sends what is due until the client is closed.
func (c *Client) run() {
	defer close(c.stopped)
	back := c.nc.StatusChanged(nats.CONNECTED)
	defer c.nc.RemoveStatusListener(back)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case _, open := <-back:
			if !open {
				back = nil // the connection is closed for good
			}
		case <-timer.C:
		case <-c.closing:
			c.last()
			return
		}
		next := c.send()
		timer.Reset(next)
	}
}

// send sends what is due, and says in how long there is more.
func (c *Client) send() time.Duration {
	if !c.nc.IsConnected() {
		c.mu.Lock()
		c.next = time.Time{}
		c.mu.Unlock()
		return every // a change of the status comes first, mostly
	}
	c.mu.Lock()
	batch, next := c.box.take(time.Now())
	c.next = next
	dropped := c.box.dropped - c.told
	c.told = c.box.dropped
	c.mu.Unlock()
	if dropped > 0 {
		c.tell(fmt.Errorf("%d words were dropped: there was no connection for too long", dropped))
	}
	if err := c.publish(batch); err != nil {
		c.mu.Lock()
		c.box.lost(batch, time.Now())
		c.next = time.Time{}
		c.mu.Unlock()
		return every
	}
	if next.IsZero() {
		return time.Hour
	}
	return max(time.Until(next), 0)
}

// publish sends a batch and waits until the server has read it, and with credentials until it has
// stored the leases in it.
func (c *Client) publish(batch []word) error {
	if len(batch) == 0 {
		return nil
	}
	acks, err := c.awaits(batch)
	if err != nil {
		return fmt.Errorf("listen for acknowledgements: %w", err)
	}
	connection := c.nc.Stats().Reconnects
	for _, w := range batch {
		m := nats.NewMsg(w.subject)
		m.Data = w.data
		if w.ttl > 0 {
			m.Header.Set(ttlHeader, ttlValue(w.ttl))
			acks.ask(m)
		}
		err := c.nc.PublishMsg(m)
		if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) {
			c.tell(fmt.Errorf("publish on %s, dropped: %w", w.subject, err)) // it would never go
			continue
		}
		if err != nil {
			return fmt.Errorf("publish on %s: %w", w.subject, err)
		}
	}
	if err := c.nc.FlushTimeout(flushLimit); err != nil {
		return fmt.Errorf("publish %d messages: %w", len(batch), err)
	}
	if c.nc.Stats().Reconnects != connection { // the server of another one has read what was left
		return fmt.Errorf("publish %d messages: %w", len(batch), nats.ErrStaleConnection)
	}
	return c.silence(acks.wait(flushLimit))
}

// ttlHeader has the server drop the message of a lease long after it has run out,
// so that the subjects of connections don't pile up.
const ttlHeader = "Nats-TTL"

func ttlValue(ttl time.Duration) string {
	return strconv.Itoa(int((schemas.LeaseKept(ttl) + time.Second - 1) / time.Second))
}

// last sends all that is left when the client is closed.
func (c *Client) last() {
	now, connected := time.Now(), c.nc.IsConnected()
	c.mu.Lock()
	c.box.hurry(now)
	waiting := c.box.waiting()
	batch, _ := c.box.take(now)
	c.mu.Unlock()
	switch {
	case connected:
		c.left = c.publish(batch)
	case waiting > 0:
		c.left = fmt.Errorf("%d words were not said: no connection to NATS", waiting)
	}
}

// Close ends all leases, sends what is left, and closes the connection if it is
// the client's own. It waits for the server for at most five seconds. The error
// says that not all was sent.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.stopped
		return nil
	}
	c.endLeases()
	c.closed = true
	c.mu.Unlock()
	close(c.closing)
	<-c.stopped
	if c.own {
		c.nc.Close()
	}
	return c.left
}
