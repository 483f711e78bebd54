package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natsconn"
)

// acks are the acknowledgements of the leases of a batch: the server keeps each, or says why not. Without
// credentials, and with those of a user that only publishes, there are none, since such a client may not listen.
type acks struct {
	sub   *nats.Subscription // nil if none are asked for
	inbox string
	asked int
}

// silentMost is how many batches in a row may stay without any answer: then the server gives none.
const silentMost = 3

// errDeaf: the user may not listen, as one that only publishes.
var errDeaf = errors.New("it may not hear acknowledgements")

// errSilent: a server that gives acknowledgements has given none in time.
var errSilent = errors.New("leases weren't acknowledged")

// awaits opens what hears the acknowledgements of a batch.
func (c *Client) awaits(batch []word) (*acks, error) {
	a := &acks{}
	leases := false
	for _, w := range batch {
		leases = leases || w.ttl > 0
	}
	if !leases || !c.acks {
		return a, nil
	}
	a.inbox = c.nc.NewInbox()
	all := a.inbox + ".*"
	c.listens.Store(&all)
	var err error
	a.sub, err = c.nc.SubscribeSync(all)
	return a, err
}

// ask gives a message somewhere to be acknowledged.
func (a *acks) ask(m *nats.Msg) {
	if a.sub != nil {
		m.Reply = a.inbox + "." + strconv.Itoa(a.asked)
		a.asked++
	}
}

// wait returns when all were acknowledged, or an error if one wasn't.
func (a *acks) wait(limit time.Duration) error {
	if a.sub == nil {
		return nil
	}
	defer func() { _ = a.sub.Unsubscribe() }() // the connection is closed, then
	for end := time.Now().Add(limit); a.asked > 0; a.asked-- {
		m, err := a.sub.NextMsg(max(time.Until(end), time.Millisecond))
		if errors.Is(err, nats.ErrTimeout) {
			return errSilent
		}
		if errors.Is(err, nats.ErrPermissionViolation) {
			return errDeaf
		}
		if err != nil {
			return fmt.Errorf("wait for acknowledgements of leases: %w", err)
		}
		var answer struct {
			Error *struct{ Description string } `json:"error"`
		}
		switch err := json.Unmarshal(m.Data, &answer); {
		case err != nil: // as of a server on which nothing stores activity
			return fmt.Errorf("read an acknowledgement of a lease: status %q: %w", m.Header.Get("Status"), err)
		case answer.Error != nil:
			return fmt.Errorf("store a lease: %s", answer.Error.Description)
		}
	}
	return nil
}

// deaf reports whether an error of the connection says that acknowledgements can't be heard.
func (c *Client) deaf(err error) bool {
	subject, denied := natsconn.DeniedSubject(err)
	listens := c.listens.Load()
	return denied && listens != nil && subject == *listens
}

// silence counts batches without an answer. After some no more is asked for: a server that is
// configured to pass nothing on must not have leases said again and again.
func (c *Client) silence(err error) error {
	if errors.Is(err, errDeaf) {
		c.acks = false
		return nil
	}
	if !errors.Is(err, errSilent) {
		c.silent = 0
		return err
	}
	if c.silent++; c.silent < silentMost {
		return err
	}
	c.acks = false
	c.tell(fmt.Errorf("%w %d times: they are renewed without", errSilent, c.silent))
	return nil
}
