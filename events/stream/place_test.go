package stream

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestPlaceOf(t *testing.T) {
	for subject, ok := range map[string]bool{
		"$JS.ACK.S.c.1.17.18.1700000000000000000.5":               true,
		"$JS.ACK._.hash.S.c.1.17.18.1700000000000000000.5":        true,
		"$JS.ACK._.hash.S.c.1.17.18.1700000000000000000.5.r":      true,
		"$JS.ACK._.hash.S.c.1.17.18.1700000000000000000.5.r.more": true,
		"$JS.ACK.x.S.c.1.17.18.1700000000000000000.5":             false,
		"$JS.ACK.S.c.1.17.18.1700000000000000000":                 false,
		"$JS.ACK.S.c.1.17.18.1700000000000000000.x":               false,
		"$JS.ACK.S.c.1.17.18.1700000000000000000.":                false,
		"$JS.ACK.S.c.1.17.18.999999999999999999999999999999999.5": false,
		"_INBOX.S.c.1.17.18.1700000000000000000.5":                false,
		"": false,
	} {
		var meta jetstream.MsgMetadata
		if got := reply(subject, &meta); got != ok {
			t.Errorf("%q is read: %v", subject, got)
			continue
		}
		if !ok {
			continue
		}
		m := jetstream.MsgMetadata{}
		err := placeOf(&nats.Msg{Reply: subject}, &m)
		if err != nil || m.Sequence.Stream != 17 || m.Sequence.Consumer != 18 || m.NumDelivered != 1 || m.NumPending != 5 || m.Timestamp.UnixNano() != 1700000000000000000 {
			t.Errorf("%q gives %+v, %v", subject, m, err)
		}
	}
}
