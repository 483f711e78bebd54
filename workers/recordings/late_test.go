package recordings

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// What a host stores late, that was away while the recording was redacted, is redacted by itself, or by the host that reads it where it has no
// key of a reader. What was recorded after the redaction stays as it is.
func TestRedactedLate(t *testing.T) {
	for name, reads := range map[string]bool{"by the host that stores it": true, "by the one that reads it": false} {
		b := newBench(t)
		before, after := time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
		spills := func(at time.Time, text string) {
			b.spillsAll(recording.Event{Time: at, Code: recording.Output, Data: []byte(text)})
		}
		b.begins(nil)
		spills(before, "one hun")
		b.stores()
		spills(before.Add(time.Second), "ter2 two hunter2\r\n")
		b.lists(
			schemas.TypedCommand{Number: 1, Text: "echo hunter2", Began: before, Ended: before.Add(time.Second)},
			schemas.TypedCommand{Number: 2, Text: "cat hunter2", Began: after, Ended: after},
		)
		spills(after, "hunter2 again\r\n")
		away := b.spool
		b.ends()
		b.moves(t.TempDir())
		b.record.State, b.record.Host = schemas.Exited, "other"
		if out, err := b.redacts("other.*", false); err != nil || out.Found() {
			t.Fatalf("%s: before that it redacts %+v, %v", name, out, err)
		}
		if out, err := b.redacts(secret, false); err != nil || out.Found() {
			t.Fatalf("%s: it redacts %+v, %v", name, out, err)
		}
		for object, text := range b.opened() {
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: %s has the expression", name, object)
			}
		}

		if !reads {
			away.Snapshots.Identities = nil
		}
		if err := away.sweepSession(t.Context(), b.record.UID); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if left, err := away.runs(b.record.UID); err != nil || len(left) > 0 {
			t.Errorf("%s: the host that was away still has %q, %v", name, left, err)
		}
		is, err := recording.Redacted(t.Context(), b.store, placeOf(b.record), b.spool.Snapshots.Signers(t.Context(), "acme"))
		if err != nil || is.Counts() != map[bool]uint64{true: 4, false: 2}[reads] {
			t.Errorf("%s: once it is stored, redaction %d counts, %v", name, is.Counts(), err)
		}
		all, err := b.spool.Commands(t.Context(), b.record)
		if err != nil {
			t.Fatal(err)
		}
		var typed []string
		err = all.Each(t.Context(), func(c schemas.TypedCommand) error {
			typed = append(typed, c.Text)
			return nil
		})
		if err != nil || !slices.Equal(typed, []string{"cat hunter2", "echo *******"}) {
			t.Errorf("%s: commands are %q, %v", name, typed, err)
		}
		for range 2 {
			if got, want := first(b.all()), "one ******* two *******\r\nhunter2 again\r\n"; got != want {
				t.Errorf("%s: it is %q, want %q", name, got, want)
			}
		}
		now, err := recording.Redacted(t.Context(), b.store, placeOf(b.record), b.spool.Snapshots.Signers(t.Context(), "acme"))
		if err != nil || now.Counts() != 4 {
			t.Errorf("%s: after it was read twice, redaction %d counts, %v", name, now.Counts(), err)
		}
	}
}
