package smuggle

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The frames of HTTP/2 that are sent, or looked for.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7

	endsStream  = 1
	endsHeaders = 4
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead   = 9
)

// field is a header of a stream, as it is sent.
type field struct{ name, value string }

// streamed is a request as a stream, and whether it reaches the session, as what.
type streamed struct {
	name    string
	fields  []field
	reaches string
}

var plain = []field{{":method", "GET"}, {":scheme", "http"}, {":path", "/x"}, {":authority", "{HOST}"}}

// with gives the fields of a request, those of others in place of those with the same name.
func with(others ...field) (all []field) {
	all = append(all, plain...)
	for _, f := range others {
		if i := strings.IndexByte(f.name, ':'); i == 0 {
			for j := range all {
				if all[j].name == f.name {
					all[j] = f
				}
			}
			continue
		}
		all = append(all, f)
	}
	return all
}

var streams = []streamed{
	{"plain", with(), got("GET /x", "", "")},
	{"a host besides", with(field{"host", "evil.example"}), got("GET /x", "", "")},
	{"another authority", with(field{":authority", "evil.example"}, field{"host", "{HOST}"}), ""},
	{"headers of one hop", with(field{"connection", "close"}), ""},
	{"a connection that names ours", with(field{"connection", "x-forwarded-for"}), ""},
	{"chunks", with(field{"transfer-encoding", "chunked"}), ""},
	{"an upgrade", with(field{"upgrade", "h2c"}), ""},
	{"a capital in a name", with(field{"X-A", "b"}), ""},
	{"a line in a value", with(field{"x", "a\r\nhost: evil"}), ""},
	{"NUL in a value", with(field{"x", "a\x00b"}), ""},
	{"a colon in a name", with(field{"x:y", "a"}), ""},
	{"a space in a name", with(field{"x y", "a"}), ""},
	{"an unknown word of the protocol", append(with(), field{":magic", "a"}), ""},
	{"a word of the protocol twice", append(with(), field{":path", "/y"}), ""},
	{"a word of the protocol after others", append([]field{{"x", "a"}}, plain...), ""},
	{"a path without its slash", with(field{":path", "x"}), ""},
	{"a path with a line", with(field{":path", "/x HTTP/1.1\r\nHost: evil"}), ""},
	{"a method with a line", with(field{":method", "GET /y HTTP/1.1\r\nX:"}), ""},
	{"what is said of the way", with(field{"x-forwarded-for", "10.0.0.1"}, field{"diapause-session", "a"}), got("GET /x", "", "")},
}

func (w Way) streams(t *testing.T) {
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			w.Backend.take()
			fields := s.fields
			for line := range strings.Lines(w.Token) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				fields = append(fields[:len(fields):len(fields)], field{strings.ToLower(name), value})
			}
			ok, err := w.stream(fields)
			if got, want := w.Backend.take(), w.filled(s.reaches); got != want || ok != (want != "") {
				t.Errorf("the session gets\n%q, want\n%q\nthe answer is 200: %v, %v", got, want, ok, err)
			}
		})
	}
}

// stream sends a request as the one stream of a connection, and reports whether the answer is 200.
func (w Way) stream(fields []field) (ok bool, err error) {
	c, err := net.Dial("tcp", w.Address)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return false, err
	}
	var block []byte
	for _, f := range fields {
		block = literal(block, f.name, w.filled(f.value))
	}
	text := []byte(preface)
	text = frame(text, frameSettings, 0, 0, nil)
	text = frame(text, frameHeaders, endsStream|endsHeaders, 1, block)
	if _, err := c.Write(text); err != nil {
		return false, err
	}
	for {
		head := make([]byte, frameHead)
		if _, err := io.ReadFull(c, head); err != nil {
			return ok, err
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return ok, err
		}
		switch head[3] {
		case frameReset, frameGoAway:
			return ok, fmt.Errorf("frame %d: %x", head[3], payload)
		case frameHeaders:
			const status200 = 0x88 // indexed, in the static table
			ok = len(payload) > 0 && payload[0] == status200
		}
		if (head[3] == frameHeaders || head[3] == frameData) && head[4]&endsStream != 0 {
			return ok, nil
		}
	}
}

func frame(to []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	to = append(to, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(to, stream), payload...)
}

// literal appends a header as HPACK has it that is in no table: each text with its length, below 127, and the text.
func literal(to []byte, name, value string) []byte {
	to = append(to, 0x10)
	for _, text := range []string{name, value} {
		to = append(append(to, byte(len(text))), text...)
	}
	return to
}
