package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// dropPages drops what this host kept of a session's images.
func (w *Worker) dropPages(uid schemas.UID) {
	if w.shelf != nil {
		w.shelf.drop(uid)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.bases, uid)
}

// dropStrangers drops what is kept of sessions that are no more: they may have
// been shredded while this host was down.
func (w *Worker) dropStrangers(ctx context.Context) error {
	if w.shelf == nil {
		return nil
	}
	living, complete := map[schemas.UID]bool{}, false
	watch, stop := context.WithCancel(ctx)
	defer stop()
	err := w.Records.Watch(watch, func(v statekv.Versioned) {
		if v.State != schemas.Deleted {
			living[v.UID] = true
		}
	}, func() {
		complete = true
		stop()
	})
	if err != nil || !complete {
		return err // without all of the records nobody is a stranger
	}
	for _, f := range w.shelf.files() {
		if uid, _, _ := strings.Cut(f.Name(), "."); !living[schemas.UID(uid)] {
			w.shelf.drop(schemas.UID(uid))
		}
	}
	return nil
}

// answerForget drops it for another host, and says so.
func (w *Worker) answerForget(msg *nats.Msg) {
	w.dropPages(schemas.UID(msg.Data))
	_ = msg.Respond([]byte(w.Host)) // whoever asked is gone, then
}

// hostForgets bounds how long one host may take to say that it has forgotten.
const hostForgets = 5 * time.Second

// shredded records the end of a session whose images are gone, keys first, after
// every host was told to forget what it kept of them.
func (w *Worker) shredded(ctx context.Context, rec statekv.Versioned) error {
	did, silent, err := w.tellHosts(ctx, rec.UID)
	if err != nil {
		return err
	}
	text := "its keys and then its images are deleted, in every version that the store had; forgotten by " + strings.Join(did, ", ")
	if len(silent) > 0 {
		text += "; no answer from " + strings.Join(silent, ", ") + ", which forget when they start again"
	}
	w.event(ctx, rec.SessionRecord, "shredded", "%s", text)
	_, err = w.swapOwned(ctx, rec, schemas.Transition{Type: schemas.TShredded, Reason: text})
	return err
}

// tellHosts has every host that ever announced itself forget a session, this one
// too.
func (w *Worker) tellHosts(ctx context.Context, uid schemas.UID) (did, silent []string, err error) {
	w.dropPages(uid)
	did = []string{string(w.Host)}
	kv, err := w.JS.KeyValue(ctx, w.Names.Hosts())
	if err != nil {
		return nil, nil, fmt.Errorf("find bucket %s: %w", w.Names.Hosts(), err)
	}
	hosts, err := kv.ListKeys(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the hosts: %w", err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for host := range hosts.Keys() {
		if host == string(w.Host) {
			continue
		}
		wg.Go(func() {
			ok := w.askToForget(ctx, host, uid)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				did = append(did, host)
			} else {
				silent = append(silent, host)
			}
		})
	}
	wg.Wait()
	slices.Sort(did)
	slices.Sort(silent)
	return did, silent, ctx.Err()
}

func (w *Worker) askToForget(ctx context.Context, host string, uid schemas.UID) bool {
	ctx, cancel := context.WithTimeout(ctx, hostForgets)
	defer cancel()
	_, err := w.NC.RequestWithContext(ctx, schemas.SubjectHost+"."+host+".forget", []byte(uid))
	return err == nil
}
