package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// hostForgets is how long one host may take to answer that it has dropped its pages.
const hostForgets = 5 * time.Second

// shredded records the end of a session whose images are gone, keys first, after
// every host was told to forget what it kept of them.
func (v *remover) shredded(ctx context.Context, rec statekv.Versioned) error {
	did, silent, err := v.tellHosts(ctx, rec.UID)
	if err != nil {
		return err
	}
	if rec.Lineage != "" { // a host may have stored what it had recorded before it was told
		if err := v.snapshots.DeleteAll(ctx, rec.SessionRecord); err != nil {
			return err
		}
	}
	text := "its keys and then its images are deleted, in every version that the store had; forgotten by " + strings.Join(did, ", ")
	if len(silent) > 0 {
		text += "; no answer from " + strings.Join(silent, ", ") + ", which forget when they start again"
	}
	v.recorder.event(ctx, rec.SessionRecord, "shredded", "%s", text)
	_, err = v.recorder.swap(ctx, rec, schemas.Transition{Type: schemas.TShredded, Reason: text})
	return err
}

// tellHosts has every host that ever announced itself, this one too, drop what it keeps of a
// session's images.
func (v *remover) tellHosts(ctx context.Context, uid schemas.UID) (did, silent []string, err error) {
	v.snapshots.Forget(uid)
	did = []string{string(v.host)}
	kv, err := v.js.KeyValue(ctx, v.names.Hosts())
	if err != nil {
		return nil, nil, fmt.Errorf("find bucket %s: %w", v.names.Hosts(), err)
	}
	hosts, err := kv.ListKeys(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the hosts: %w", err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for host := range hosts.Keys() {
		if host == string(v.host) {
			continue
		}
		wg.Go(func() {
			ok := v.askToForget(ctx, host, uid)
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

func (v *remover) askToForget(ctx context.Context, host string, uid schemas.UID) bool {
	ctx, cancel := context.WithTimeout(ctx, hostForgets)
	defer cancel()
	_, err := v.nc.RequestWithContext(ctx, schemas.SubjectHost+"."+host+".forget", []byte(uid))
	return err == nil
}
