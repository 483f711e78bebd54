package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// Containerd's API is gRPC. The two calls of it that are needed have a request of strings and
// an answer of strings and messages: they are spoken here, without its client.

// containerdWait bounds the wait for containerd's answer, and containerdMax its length.
const (
	containerdWait = 10 * time.Second
	containerdMax  = 4 << 20
)

// containerd is where an engine's containerd is.
type containerd struct {
	socket    string
	namespace string
}

// call calls a method of containerd's API and gives its answer.
func (c containerd) call(ctx context.Context, method string, request ...field) ([]byte, error) {
	ctx, done := context.WithTimeout(ctx, containerdWait)
	defer done()
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &plain, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket)
	}}
	defer transport.CloseIdleConnections()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://containerd/containerd.services."+method, bytes.NewReader(framed(request)))
	if err != nil {
		return nil, fmt.Errorf("ask containerd: %w", err)
	}
	q.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Containerd-Namespace": {c.namespace}}
	r, err := transport.RoundTrip(q)
	if err != nil {
		return nil, fmt.Errorf("ask containerd at %s: %w", c.socket, err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(r.Body, containerdMax))
	if err != nil {
		return nil, fmt.Errorf("read containerd's answer: %w", err)
	}
	if status := r.Header.Get("Grpc-Status") + r.Trailer.Get("Grpc-Status"); status != "0" { // in one of them
		return nil, &containerdError{c.socket, status, r.Header.Get("Grpc-Message") + r.Trailer.Get("Grpc-Message")}
	}
	return unframed(answer)
}

// containerdError is what containerd says instead of an answer.
type containerdError struct{ socket, status, message string }

func (e *containerdError) Error() string {
	return fmt.Sprintf("containerd at %s answers with status %q: %s", e.socket, e.status, e.message)
}

// never reports whether a call has no answer, and won't have one later.
func never(err error) bool {
	const notFound, denied, unimplemented, unauthenticated = "5", "7", "12", "16"
	var e *containerdError
	return errors.As(err, &e) && slices.Contains([]string{notFound, denied, unimplemented, unauthenticated}, e.status)
}

// grpcHead is what comes before a message: whether it is compressed, and its length.
const grpcHead = 5

func framed(request []field) []byte {
	b := make([]byte, grpcHead)
	for _, f := range request {
		b = binary.AppendUvarint(b, f.number<<3|lengthGiven)
		b = binary.AppendUvarint(b, uint64(len(f.value)))
		b = append(b, f.value...)
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-grpcHead))
	return b
}

func unframed(answer []byte) ([]byte, error) {
	if len(answer) < grpcHead || answer[0] != 0 || int64(binary.BigEndian.Uint32(answer[1:])) != int64(len(answer)-grpcHead) {
		return nil, fmt.Errorf("containerd's answer of %d bytes is cut off, or compressed", len(answer))
	}
	return answer[grpcHead:], nil
}

// field is one of a message of protocol buffers that is a string or a message.
type field struct {
	number uint64
	value  []byte
}

// The kinds of fields, as they are encoded.
const (
	varint      = 0
	eightBytes  = 1
	lengthGiven = 2
	fourBytes   = 5
)

// fields gives the strings and messages of a message that have a number.
func fields(message []byte, number uint64) (out [][]byte, err error) {
	for b := message; len(b) > 0; {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errCut
		}
		b = b[n:]
		var size uint64
		switch tag & 7 {
		case varint:
			if _, n = binary.Uvarint(b); n <= 0 {
				return nil, errCut
			}
			size = uint64(n)
		case eightBytes:
			size = 8
		case fourBytes:
			size = 4
		case lengthGiven:
			if size, n = binary.Uvarint(b); n <= 0 {
				return nil, errCut
			}
			b = b[n:]
		default:
			return nil, fmt.Errorf("containerd's answer has a field of kind %d", tag&7)
		}
		if size > uint64(len(b)) {
			return nil, errCut
		}
		if tag == number<<3|lengthGiven {
			out = append(out, b[:size])
		}
		b = b[size:]
	}
	return out, nil
}

var errCut = errors.New("containerd's answer is cut off")

// below gives the strings and messages of a message that are reached by numbers.
func below(message []byte, numbers ...uint64) ([][]byte, error) {
	at := [][]byte{message}
	for _, number := range numbers {
		var next [][]byte
		for _, m := range at {
			found, err := fields(m, number)
			if err != nil {
				return nil, err
			}
			next = append(next, found...)
		}
		at = next
	}
	return at, nil
}
