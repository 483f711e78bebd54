package worker_test

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// What a later version wrote and this one doesn't know is refused by name.
func TestSessionOfLaterVersion(t *testing.T) {
	b := newBench(t)
	b.needs = []schemas.Feature{schemas.FeatureDisk, "later"}
	b.work()
	v := b.asked("count")
	got := b.until("failed", in(schemas.Failed))
	if got.Failure == nil || !strings.Contains(got.Failure.Text, `too old for ["later"]`) || got.Failure.Hint == "" {
		t.Errorf("failure %+v", got.Failure)
	}
	b.isOnHost(v.UID, "")
}

// An image of a later version is kept, and resumed by one that knows what it needs.
func TestImageOfLaterVersion(t *testing.T) {
	b := newBench(t)
	b.fake.Need("diapause:later")
	v, n := b.asleep()
	b.fake.Need()
	b.resume()
	got := b.until("a failure", made(schemas.TResumeFailed))
	if !suspended(got) || got.Failure == nil || !strings.Contains(got.Failure.Text, "too old for the image: it lacks later") || *got.Head != *v.Head {
		t.Fatalf("%s, failure %+v, head %v", got.State, got.Failure, got.Head)
	}
	b.fake.Need("diapause:later")
	b.resume()
	got = b.until("running", running)
	if now := b.count(got.UID); now < n {
		t.Errorf("it counts from %d, was at %d", now, n)
	}
	b.folded()
}
