package strangers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// How long words are kept that aren't leases: as long as the stream keeps all, and those that say nothing as
// long as it takes to count them.
const (
	wordsKept   = 30 * 24 * time.Hour
	garbageKept = 10 * time.Minute
)

// ttlHeader has a stream keep a message for so many seconds.
const ttlHeader = "Nats-TTL"

// Stored gives the header that a message is stored with, of the one that it came with, in the form of the
// protocol: what activity has, and nothing else, which a server may heed. kept is for how long.
func Stored(subject string, came, data []byte) (header nats.Header, kept time.Duration) {
	var all nats.Header
	if len(came) > 0 {
		all, _ = nats.DecodeHeadersMsg(came) // without what can't be read
	}
	src, err := schemas.ParseActivitySubject(subject)
	said, also := schemas.ParseMessage(all, data)
	header = envelope(all)
	switch {
	case err != nil || also != nil:
		kept = garbageKept
	case src.Kind.Lease():
		kept = schemas.LeaseKept(ttlOf(said.Activity))
	default:
		return header, wordsKept
	}
	header[ttlHeader] = []string{fmt.Sprint(int(kept.Round(time.Second).Seconds()))}
	return header, kept
}

// Untimed takes out of a header that Stored made how long the message is kept, and gives for how long it is then.
func Untimed(header nats.Header) time.Duration {
	delete(header, ttlHeader)
	return wordsKept
}

func ttlOf(a schemas.Activity) time.Duration {
	if a.TTL <= 0 || a.Released {
		return schemas.DefaultLease
	}
	return time.Duration(a.TTL)
}

// envelope gives what activity has of a header.
func envelope(all nats.Header) nats.Header {
	out := nats.Header{}
	for name, values := range all {
		low := strings.ToLower(name)
		if low != "content-type" && !strings.HasPrefix(low, "ce-") || len(values) == 0 {
			continue
		}
		if !strings.ContainsAny(name+values[0], "\r\n") {
			out[name] = values[:1]
		}
	}
	return out
}

// Encode gives a header that Stored made in the form of the protocol; nil if it is empty.
func Encode(h nats.Header) []byte {
	if len(h) == 0 {
		return nil
	}
	var lines []string
	for name, values := range h {
		lines = append(lines, name+": "+values[0])
	}
	slices.Sort(lines)
	return []byte("NATS/1.0\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n")
}
