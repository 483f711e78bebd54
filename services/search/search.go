package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Asking is what hosts are asked.
type Asking struct {
	attach.Search
	// Dial connects to a host with a hello. The error is ErrAway if it doesn't answer.
	Dial  func(ctx context.Context, host schemas.HostID, hello []byte) (net.Conn, error)
	Notes io.Writer // gets what hosts say of sessions that they couldn't search, from several goroutines
	Keep  int       // so many of the last lines are kept
	Bytes int       // what they may take; no bound if 0. The last line is kept, however long
	// Skip reports whether a line isn't wanted; nil if all are.
	Skip func(attach.Found) bool
}

// Result is what hosts have found.
type Result struct {
	Found    []attach.Found // the last one first
	More     bool           // not all that was found was kept
	Searched int            // sessions that were searched
	Failed   []Failure      // by their hosts
}

// Failure is a host that couldn't search its sessions.
type Failure struct {
	Host     schemas.HostID
	Sessions int
	Err      error
}

func (f Failure) Error() string {
	return fmt.Sprintf("search the sessions of host %s: %v", f.Host, f.Err)
}

func (f Failure) Unwrap() error { return f.Err }

// ErrAway: a host doesn't answer.
var ErrAway = errors.New("it doesn't answer")

// errMore: a host sends more lines than it was asked for.
var errMore = errors.New("it sends more lines than it was asked for")

// atOnce is how many hosts are asked at a time.
const atOnce = 32

// ByHost says which sessions there are to search on which host: those that have a terminal and were on a host.
func ByHost(views []schemas.View) map[schemas.HostID][]attach.Searched {
	out := map[schemas.HostID][]attach.Searched{}
	for _, v := range views {
		if v.Host != "" && v.TTY {
			out[v.Host] = append(out[v.Host], attach.Searched{Name: v.Name, UID: v.UID, Version: v.Version})
		}
	}
	return out
}

// Ask asks all hosts. The error is the first host's if none has searched anything, or that of ctx.
func (a Asking) Ask(ctx context.Context, hosts map[schemas.HostID][]attach.Searched) (Result, error) {
	hello, err := json.Marshal(attach.Hello{Search: true})
	if err != nil {
		return Result{}, fmt.Errorf("encode the request: %w", err)
	}
	r := &round{Asking: a, hello: hello, failed: map[schemas.HostID]error{}}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for host, of := range hosts {
		g.Go(func() error {
			r.host(ctx, host, host, of)
			return nil
		})
	}
	_ = g.Wait() // hosts that failed are in failed
	var left schemas.HostID
	for host := range hosts {
		if r.failed[host] == nil {
			left = host
		}
	}
	for host, err := range r.failed {
		if errors.Is(err, ErrAway) && left != "" {
			r.host(ctx, left, host, hosts[host])
		}
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	out := r.result(hosts)
	if out.Searched == 0 && len(out.Failed) > 0 {
		return out, out.Failed[0]
	}
	return out, nil
}

// round is a question under way.
type round struct {
	Asking
	hello []byte

	mu       sync.Mutex
	all      []attach.Found
	floor    *attach.Found // lines before it aren't kept any more
	searched int
	failed   map[schemas.HostID]error
}

// host has one host search the sessions of another, or its own.
func (r *round) host(ctx context.Context, by, host schemas.HostID, of []attach.Searched) {
	err := r.ask(ctx, by, of)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed[host] = err
		return
	}
	delete(r.failed, host)
	r.searched += len(of)
}

func (r *round) ask(ctx context.Context, host schemas.HostID, of []attach.Searched) error {
	conn, err := r.Dial(ctx, host, r.hello)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	lines := 0
	err = attach.FetchFound(conn, r.Search, of, r.Notes, func(f attach.Found) error {
		if lines++; lines > r.Limit {
			return errMore
		}
		r.take(f)
		return nil
	})
	return cmp.Or(ctx.Err(), err)
}

// take keeps a line, unless there are enough that are later.
func (r *round) take(f attach.Found) {
	if r.Skip != nil && r.Skip(f) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.floor != nil && attach.Newest(f, *r.floor) > 0 {
		return
	}
	if r.all = append(r.all, f); len(r.all) > 2*r.Keep || r.Bytes > 0 && size(r.all) > 2*r.Bytes {
		r.prune()
	}
}

// prune drops the oldest lines that are too many. Callers hold mu, or are alone.
func (r *round) prune() {
	slices.SortFunc(r.all, attach.Newest)
	n := min(len(r.all), r.Keep)
	for n > 1 && r.Bytes > 0 && size(r.all[:n]) > r.Bytes {
		n--
	}
	if n < len(r.all) && n > 0 {
		last := r.all[n-1]
		r.floor = &last
	}
	r.all = slices.Clone(r.all[:n])
}

// size is what lines take, in bytes.
func size(all []attach.Found) (n int) {
	for _, f := range all {
		n += len(f.Session) + len(f.Line) + len(f.Text)
		for _, lines := range [][]string{f.Before, f.After} {
			for _, l := range lines {
				n += len(l)
			}
		}
	}
	return n
}

// result gives what was kept.
func (r *round) result(hosts map[schemas.HostID][]attach.Searched) Result {
	r.prune()
	out := Result{Found: append([]attach.Found{}, r.all...), More: r.floor != nil, Searched: r.searched}
	for host, err := range r.failed {
		out.Failed = append(out.Failed, Failure{host, len(hosts[host]), err})
	}
	slices.SortFunc(out.Failed, func(a, b Failure) int { return cmp.Compare(a.Host, b.Host) })
	return out
}
