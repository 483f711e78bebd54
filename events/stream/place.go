package stream

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// placeOf reads where a message stands in its stream from its reply subject, into
// meta: its sequences, time and what is pending. The client's own way makes as much
// garbage as the rest of reading a message; a form that isn't known here is left to it.
func placeOf(msg *nats.Msg, meta *jetstream.MsgMetadata) error {
	if reply(msg.Reply, meta) {
		return nil
	}
	m, err := msg.Metadata()
	if err != nil {
		return err
	}
	meta.NumDelivered, meta.NumPending, meta.Timestamp = m.NumDelivered, m.NumPending, m.Timestamp
	meta.Sequence = jetstream.SequencePair{Stream: m.Sequence.Stream, Consumer: m.Sequence.Consumer}
	return nil
}

// The tokens of a reply subject: $JS.ACK, in the newer form domain and account, then
// stream, consumer, and five numbers; the newer form may go on after these.
const (
	oldTokens = 9
	newTokens = 11
	numbers   = 5
)

func reply(subject string, meta *jetstream.MsgMetadata) bool {
	const prefix = "$JS.ACK."
	if len(subject) < len(prefix) || subject[:len(prefix)] != prefix {
		return false
	}
	var ends [newTokens + 1]int
	n := 0
	for i := range len(subject) {
		if subject[i] == '.' && n < len(ends) {
			ends[n] = i
			n++
		}
	}
	if n < len(ends) {
		ends[n] = len(subject)
		n++
	}
	last := oldTokens
	if n >= newTokens {
		last = newTokens
	}
	if n < last || n == newTokens-1 {
		return false
	}
	var v [numbers]uint64
	for i := range v {
		at := last - numbers + i
		if !decimal(subject[ends[at-1]+1:ends[at]], &v[i]) {
			return false
		}
	}
	meta.NumDelivered, meta.NumPending = v[0], v[4]
	meta.Sequence = jetstream.SequencePair{Stream: v[1], Consumer: v[2]}
	meta.Timestamp = time.Unix(0, int64(v[3]))
	return true
}

func decimal(s string, to *uint64) bool {
	var n uint64
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 || n > (1<<63)/10 {
			return false
		}
		n = n*10 + uint64(c)
	}
	*to = n
	return len(s) > 0
}
