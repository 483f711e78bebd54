package events

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// drive takes all that is due until a time, as the client does.
func drive(o *outbox, from, until time.Time) (sent []word, at []time.Time) {
	for now := from; ; {
		batch, next := o.take(now)
		for _, w := range batch {
			sent, at = append(sent, w), append(at, now)
		}
		if next.IsZero() || next.After(until) {
			return sent, at
		}
		now = next
	}
}

// A busy keyboard: the first goes at once, then one a second, and the last one
// always goes.
func TestKeyboard(t *testing.T) {
	o := newOutbox()
	var sent []word
	var at []time.Time
	end := t0.Add(10 * time.Second)
	for now := t0; now.Before(end); now = now.Add(10 * time.Millisecond) {
		o.put(word{subject: "k", data: fmt.Append(nil, now.UnixMilli())}, now)
		w, a := drive(o, now, now)
		sent, at = append(sent, w...), append(at, a...)
	}
	w, a := drive(o, end, end.Add(time.Hour))
	sent, at = append(sent, w...), append(at, a...)
	if len(sent) != 11 || !at[0].Equal(t0) {
		t.Errorf("%d messages, the first at %s, want 11 from %s on", len(sent), at[0], t0)
	}
	if got, want := string(sent[len(sent)-1].data), fmt.Sprint(end.Add(-10*time.Millisecond).UnixMilli()); got != want {
		t.Errorf("the last to go was %s, want %s", got, want)
	}
	if len(o.entries) != 0 || len(o.queue) != 0 || o.free != 0 {
		t.Errorf("%d words are remembered of a session that is quiet", len(o.entries))
	}
}

func TestReconnectNeverReplacesAPerson(t *testing.T) {
	o := newOutbox()
	o.put(word{subject: "k", data: []byte("a")}, t0)
	drive(o, t0, t0)
	o.put(word{subject: "k", data: []byte("person")}, t0)
	o.put(word{subject: "k", data: []byte("program"), weak: true}, t0)
	if sent, _ := drive(o, t0, t0.Add(time.Minute)); len(sent) != 1 || string(sent[0].data) != "person" {
		t.Errorf("sent %v, want the person's", sent)
	}
}

func lease(held bool) word { return word{subject: "l", ttl: 30 * time.Second, held: held} }

func TestLeaseIsRenewedAndEnds(t *testing.T) {
	o := newOutbox()
	o.put(lease(true), t0)
	_, at := drive(o, t0, t0.Add(35*time.Second))
	for i, want := range []time.Duration{0, 2 * time.Second, 12 * time.Second, 22 * time.Second, 32 * time.Second} {
		if i >= len(at) || at[i].Sub(t0) != want {
			t.Fatalf("sent at %v, want once more after 2 s, then every 10 s", at)
		}
	}
	o.put(lease(false), t0.Add(36*time.Second))
	sent, at := drive(o, t0.Add(36*time.Second), t0.Add(time.Hour))
	if len(sent) != 1 || sent[0].held || at[0].Sub(t0) != 36*time.Second {
		t.Errorf("sent %v at %v, want one release at once", sent, at)
	}
}

// A page that is reloaded ten times a second costs no more than two messages a
// second, and is never left released.
func TestLeaseThatFlaps(t *testing.T) {
	o := newOutbox()
	n, last := 0, word{}
	for now := t0; now.Before(t0.Add(10 * time.Second)); now = now.Add(50 * time.Millisecond) {
		o.put(lease(now.UnixMilli()%100 == 0), now)
		sent, _ := drive(o, now, now)
		n += len(sent)
	}
	o.put(lease(true), t0.Add(10*time.Second))
	sent, _ := drive(o, t0.Add(10*time.Second), t0.Add(12*time.Second))
	for _, w := range sent {
		n++
		last = w
	}
	if len(sent) == 0 { // then what was said before stands
		last = o.entries[word{subject: "l"}.key()].said
	}
	if n > 21 || !last.held {
		t.Errorf("%d messages, the last held %v; want at most two a second, held", n, last.held)
	}
}

// A new connection says at once that it is there, however short ago an earlier one
// of its key ended.
func TestLeaseOpensAtOnce(t *testing.T) {
	o := newOutbox()
	o.put(lease(true), t0)
	drive(o, t0, t0)
	o.put(lease(false), t0.Add(time.Second))
	drive(o, t0.Add(time.Second), t0.Add(time.Second))
	o.put(lease(true), t0.Add(1100*time.Millisecond))
	if sent, at := drive(o, t0.Add(1100*time.Millisecond), t0.Add(1200*time.Millisecond)); len(sent) != 1 || !sent[0].held || at[0].Sub(t0) != 1100*time.Millisecond {
		t.Errorf("sent %v at %v, want the lease at once", sent, at)
	}
}

func TestWithoutConnection(t *testing.T) {
	o := newOutbox()
	o.limit = 100
	for i := range 500 {
		o.put(word{subject: fmt.Sprint(i)}, t0)
		o.put(word{subject: fmt.Sprint("lease", i), ttl: time.Minute, held: true}, t0)
	}
	if len(o.entries) != 600 || o.dropped != 400 {
		t.Errorf("%d words are kept and %d dropped, want 100 and all 500 leases, 400 dropped", len(o.entries), o.dropped)
	}
	o.put(word{subject: "late"}, t0.Add(2*time.Hour))
	sent, _ := drive(o, t0.Add(2*time.Hour), t0.Add(2*time.Hour))
	if len(sent) != 501 || o.dropped != 500 {
		t.Errorf("sent %d and dropped %d: want the leases and what is news, and all that is older than an hour dropped", len(sent), o.dropped)
	}
}

// After any order of words said, sent and lost, the last word of each subject arrives, and no
// subject of a moment has more than one message a second beyond those that were lost.
func TestLastWordArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, now := newOutbox(), t0
		said, arrived := map[string]string{}, map[string]string{}
		lastAt := map[string]time.Time{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")) * time.Millisecond)
			subject := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "subject")
			said[subject] = fmt.Sprint(i)
			o.put(word{subject: subject, data: []byte(said[subject])}, now)
			batch, _ := o.take(now)
			if rapid.IntRange(0, 3).Draw(t, "fate") == 0 {
				o.lost(batch, now)
				for _, w := range batch {
					delete(lastAt, w.subject)
				}
				continue
			}
			for _, w := range batch {
				if prev, ok := lastAt[w.subject]; ok && now.Sub(prev) < every {
					t.Fatalf("%s: two messages in %s", w.subject, now.Sub(prev))
				}
				lastAt[w.subject], arrived[w.subject] = now, string(w.data)
			}
		}
		rest, _ := drive(o, now, now.Add(time.Minute))
		for _, w := range rest {
			arrived[w.subject] = string(w.data)
		}
		for subject, want := range said {
			if arrived[subject] != want {
				t.Fatalf("%s: the last that arrived is %q, want %q", subject, arrived[subject], want)
			}
		}
	})
}

// What is put says whether it is due before the time at which the sender comes back anyway.
func TestSoonest(t *testing.T) {
	o, now := newOutbox(), time.Now()
	if at := o.soonest(); !at.IsZero() {
		t.Errorf("nothing is due at %s", at)
	}
	o.put(word{subject: "a"}, now)
	if at := o.soonest(); at.After(now) {
		t.Errorf("the first word is due at %s", at)
	}
	_, next := o.take(now)
	o.put(word{subject: "a"}, now)
	if at := o.soonest(); at.Before(next) || !next.Equal(now.Add(every)) {
		t.Errorf("one more on its subject is due at %s, the sender comes back at %s", at, next)
	}
	o.put(word{subject: "b"}, now)
	if at := o.soonest(); !at.Before(next) {
		t.Errorf("one on another subject is due at %s", at)
	}
}
