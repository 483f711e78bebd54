package segment

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
)

// Prefix is what the names of all segments begin with. It is no tenant's name, so that no
// image is below it.
const Prefix = "sessions.log/"

var (
	// ErrCorrupt: the object is damaged, cut short or no segment.
	ErrCorrupt = errors.New("log segment is damaged")
	// ErrForged: its signature isn't that of a key that is trusted, or it isn't the segment
	// that the chain names.
	ErrForged = errors.New("log segment is not genuine")
	// ErrNoKey: none of the identities opens it.
	ErrNoKey = errors.New("no key for the log segment")
)

// Ref names one segment in a chain; the zero one is before the first.
type Ref struct {
	Number uint64 `json:"number"`
	Name   string `json:"name"`   // of the object
	Digest string `json:"digest"` // of its first three lines, which hold the digest of the rest
}

// Header is what a segment says of itself in clear. It has no name of a session or tenant.
type Header struct {
	Number    uint64    `json:"number"`   // in the chain, from 1
	Previous  *Ref      `json:"previous"` // null of the first
	Log       time.Time `json:"log"`      // when the log was made whose revisions these are
	First     uint64    `json:"first"`    // the lowest sequence in it
	Last      uint64    `json:"last"`     // the highest
	From      time.Time `json:"from"`     // when the log stored the oldest of them
	To        time.Time `json:"to"`       // and the newest
	Revisions int       `json:"revisions"`
	Sessions  int       `json:"sessions"` // names that they are of
	Written   time.Time `json:"written"`  // by the clock of the log
	Signer    string    `json:"signer"`   // the host whose key signed it
	Key       string    `json:"key"`      // the age recipient that it is encrypted to
	Size      int64     `json:"size"`     // of what is encrypted, in bytes
	SHA256    string    `json:"sha256"`   // of what is encrypted
}

// Revision is one entry of the log.
type Revision struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Headers map[string][]string
	Value   []byte
}

// line is a revision as it is stored: its value as JSON if that is what it is, byte by byte.
type line struct {
	Subject string              `json:"subject"`
	Seq     uint64              `json:"seq"`
	Time    time.Time           `json:"time"`
	Headers map[string][]string `json:"headers,omitempty"`
	Value   json.RawMessage     `json:"value,omitempty"`
	Bytes   []byte              `json:"bytes,omitempty"` // in place of Value
}

const (
	magic = "diapause-log-segment 1"
	// MaxLine bounds a revision as it is stored, maxHead the three lines before.
	MaxLine = 2 << 20
	maxHead = 64 << 10
)

// Options say where a segment belongs and whose it is.
type Options struct {
	Previous Ref
	Log      time.Time
	Written  time.Time
	Key      *age.X25519Recipient
	Signer   ed25519.PrivateKey
	Host     string // whose key signs
}

// Sealed is a segment that isn't stored yet.
type Sealed struct {
	Ref
	Header Header
	data   []byte
}

// Size is how many bytes it takes.
func (s Sealed) Size() int64 { return int64(len(s.data)) }

// Seal makes a segment of revisions, of which there is at least one, in any order. Those of
// one subject are in the order of their sequences.
func Seal(o Options, revisions []Revision) (Sealed, error) {
	if len(revisions) == 0 {
		return Sealed{}, errors.New("seal log segment: it has no revisions")
	}
	var body bytes.Buffer
	if err := encrypt(&body, o.Key, revisions); err != nil {
		return Sealed{}, fmt.Errorf("seal log segment: %w", err)
	}
	sum := sha256.Sum256(body.Bytes())
	h := Header{
		Number: o.Previous.Number + 1, Log: o.Log.UTC(), Written: o.Written.UTC(), Signer: o.Host, Key: o.Key.String(),
		Size: int64(body.Len()), SHA256: hex.EncodeToString(sum[:]),
	}
	if o.Previous.Number > 0 {
		h.Previous = &o.Previous
	}
	h.describe(revisions)
	text, err := json.Marshal(h)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal log segment: %w", err)
	}
	signed := magic + "\n" + string(text) + "\n"
	head := signed + base64.StdEncoding.EncodeToString(ed25519.Sign(o.Signer, []byte(signed))) + "\n"
	return Sealed{
		Ref:    Ref{Number: h.Number, Name: nameOf(h.Number), Digest: digest(head)},
		Header: h, data: append([]byte(head), body.Bytes()...),
	}, nil
}

// describe says which revisions there are.
func (h *Header) describe(revisions []Revision) {
	subjects := map[string]bool{}
	for i, r := range revisions {
		subjects[r.Subject] = true
		at := r.Time.UTC()
		if i == 0 {
			h.First, h.Last, h.From, h.To = r.Seq, r.Seq, at, at
		}
		h.First, h.Last = min(h.First, r.Seq), max(h.Last, r.Seq)
		if at.Before(h.From) {
			h.From = at
		}
		if at.After(h.To) {
			h.To = at
		}
	}
	h.Revisions, h.Sessions = len(revisions), len(subjects)
}

// nameOf gives a new name, which no other writer has: a store may not be able to tell racing
// writers of one name apart.
func nameOf(number uint64) string {
	return fmt.Sprintf("%s%012d-%s", Prefix, number, strings.ToLower(rand.Text()))
}

// NumberOf reads a segment's number from its name; ok is false for what is no segment's.
func NumberOf(name string) (number uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, Prefix)
	if !ok || objectstore.CheckName(name) != nil {
		return 0, false
	}
	digits, random, ok := strings.Cut(rest, "-")
	if !ok || len(digits) != 12 || random == "" {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		number = number*10 + uint64(c-'0')
	}
	return number, number > 0
}

func digest(head string) string {
	sum := sha256.Sum256([]byte(head))
	return hex.EncodeToString(sum[:])
}

func encrypt(to *bytes.Buffer, key *age.X25519Recipient, revisions []Revision) error {
	sealed, err := age.Encrypt(to, key)
	if err != nil {
		return err
	}
	packed, err := zstd.NewWriter(sealed, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return err
	}
	for _, r := range revisions {
		text, err := encode(r)
		if err == nil {
			_, err = packed.Write(text)
		}
		if err != nil {
			_ = packed.Close() // the segment is dropped whole
			return err
		}
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return sealed.Close()
}

func encode(r Revision) ([]byte, error) {
	l := line{Subject: r.Subject, Seq: r.Seq, Time: r.Time.UTC(), Headers: r.Headers}
	var compact bytes.Buffer
	if json.Compact(&compact, r.Value) == nil && bytes.Equal(compact.Bytes(), r.Value) && len(r.Value) > 0 {
		l.Value = r.Value
	} else {
		l.Bytes = r.Value
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		return nil, fmt.Errorf("encode entry %d: %w", r.Seq, err)
	}
	if out.Len() > MaxLine {
		return nil, fmt.Errorf("encode entry %d: %d bytes are too many", r.Seq, out.Len())
	}
	return out.Bytes(), nil
}
