package recording

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

var (
	// ErrCorrupt: the object is damaged, cut short or no segment.
	ErrCorrupt = errors.New("recording is damaged")
	// ErrForged: its signature isn't that of a key that is trusted, or it isn't the segment
	// that another one names.
	ErrForged = errors.New("recording is not genuine")
)

// Place says whose recording it is.
type Place struct {
	Tenant  schemas.Tenant
	Lineage string
	UID     schemas.UID
}

// Ref names one segment by what it is.
type Ref struct {
	Run    string `json:"run"`
	Number uint64 `json:"number"`
	Digest string `json:"digest"` // of its first two lines, which hold the digest of the rest
	// Listed is the last segment up to this one that has a list of commands: they are found from one to the other. Nil if none has.
	Listed *Ref `json:"listed,omitempty"`
}

// Header is what a segment says of itself in clear: nothing of what was printed.
type Header struct {
	UID      schemas.UID    `json:"uid"`
	Run      string         `json:"run"`      // RunName
	Number   uint64         `json:"number"`   // in its run, from 1; numbers may be left out
	Previous *Ref           `json:"previous"` // the segment before, of this run or of one before; null if there is none
	Signer   schemas.HostID `json:"signer"`   // the host whose key signed it
	Body
}

const (
	magic = "diapause-recording 1"
	// maxHead bounds the lines before what is encrypted, MaxBody that: a recorder seals long before.
	maxHead = 8 << 10
	MaxBody = 32 << 20
)

// RunName names one of a session's runs, each of which has a recording of its own: the epoch in which it
// began, the id of the key that it is encrypted to, and something that no other has.
func RunName(epoch uint64, kid, unique string) string {
	return fmt.Sprintf("%010d-%s-%s", epoch, kid, unique)
}

// SplitRun reads a run's name.
func SplitRun(run string) (epoch uint64, kid string, ok bool) {
	parts := strings.Split(run, "-")
	if len(parts) != 3 || len(parts[1]) != 16 || parts[2] == "" || !schemas.ValidToken(parts[2]) {
		return 0, "", false
	}
	epoch, err := strconv.ParseUint(parts[0], 10, 64)
	return epoch, parts[1], err == nil && RunName(epoch, parts[1], parts[2]) == run
}

func (p Place) prefix() string { return image.RecordingPrefix(p.Tenant, p.Lineage, p.UID) }

// Name is that of the object of a segment.
func (p Place) Name(run string, number uint64) string {
	return fmt.Sprintf("%s%s/%012d", p.prefix(), run, number)
}

// parseName reads a name that Name gave.
func (p Place) parseName(name string) (run string, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, p.prefix())
	if !ok {
		return "", 0, false
	}
	run, digits, _ := strings.Cut(rest, "/")
	number, err := strconv.ParseUint(digits, 10, 64)
	if _, _, known := SplitRun(run); !known || err != nil || number == 0 {
		return "", 0, false
	}
	return run, number, p.Name(run, number) == name
}

// Seal makes the clear part of a segment, and its digest.
func (h Header) Seal(key ed25519.PrivateKey) (clear []byte, ref Ref, err error) {
	if err := h.check(); err != nil {
		return nil, ref, err
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, ref, fmt.Errorf("encode a recording's header: %w", err)
	}
	signed := []byte(magic + "\n" + string(line) + "\n")
	clear = append(bytes.Clone(signed), base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed))+"\n"...)
	if len(clear) > maxHead {
		return nil, ref, fmt.Errorf("encode a recording's header: %d bytes are more than %d", len(clear), maxHead)
	}
	return clear, h.ref(digest(signed)), nil
}

// ref names the segment.
func (h Header) ref(digest string) Ref {
	is := Ref{Run: h.Run, Number: h.Number, Digest: digest}
	if h.List != nil {
		is.Listed = &Ref{Run: h.Run, Number: h.Number, Digest: digest}
	} else if h.Previous != nil {
		is.Listed = h.Previous.Listed
	}
	return is
}

func digest(signed []byte) string {
	sum := sha256.Sum256(signed)
	return hex.EncodeToString(sum[:])
}

func (h Header) check() error {
	_, _, known := SplitRun(h.Run)
	switch {
	case !known || h.Number == 0:
		return fmt.Errorf("%w: %.60q, %d is the name of no segment", ErrCorrupt, h.Run, h.Number)
	case h.Start < 0 || h.End < h.Start || h.Events < 0 || h.To.Before(h.From):
		return fmt.Errorf("%w: its end is before its beginning", ErrCorrupt)
	case h.Size <= 0 || h.Size > MaxBody:
		return fmt.Errorf("%w: it has %d bytes", ErrCorrupt, h.Size)
	case h.Previous != nil && (h.Previous.from(h) || h.Previous.Listed != nil && h.Previous.Listed.from(h)):
		return fmt.Errorf("%w: it follows on itself", ErrCorrupt)
	case h.List != nil && (h.List.Size <= 0 || h.List.Size > MaxList):
		return fmt.Errorf("%w: its list has %d bytes", ErrCorrupt, h.List.Size)
	}
	return nil
}

// from reports whether a segment is one of a run, but not before another of it.
func (r Ref) from(h Header) bool { return r.Run == h.Run && r.Number >= h.Number }

// Segment is one that was found in the store and is genuine.
type Segment struct {
	Ref
	Header Header
	object string
	at     int64 // where its encrypted part begins
}

// parseHead reads the clear part of a segment. With a digest it has to be the one that is named so; else
// it has to be signed by one of trusted.
func parseHead(data []byte, want Ref, trusted func(signer string) []ed25519.PublicKey) (Segment, error) {
	lines := bytes.SplitAfterN(data, []byte("\n"), 4)
	if len(lines) != 4 || string(lines[0]) != magic+"\n" {
		return Segment{}, fmt.Errorf("%w: it does not begin as one", ErrCorrupt)
	}
	signed := data[:len(lines[0])+len(lines[1])]
	s := Segment{Ref: Ref{Run: want.Run, Number: want.Number, Digest: digest(signed)}, at: int64(len(signed) + len(lines[2]))}
	if want.Digest != "" && want.Digest != s.Digest {
		return s, fmt.Errorf("%w: segment %d of run %s isn't the one named", ErrForged, want.Number, want.Run)
	}
	if err := json.Unmarshal(lines[1], &s.Header); err != nil {
		return s, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := s.Header.check(); err != nil {
		return s, err
	}
	s.Ref = s.Header.ref(s.Digest)
	if s.Header.Run != want.Run || s.Header.Number != want.Number {
		return s, fmt.Errorf("%w: it is segment %d of run %s", ErrForged, s.Header.Number, s.Header.Run)
	}
	if want.Digest != "" {
		return s, nil // what names it vouches for it
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(string(lines[2]), "\n"))
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !slices.ContainsFunc(trusted(string(s.Header.Signer)), func(key ed25519.PublicKey) bool { return ed25519.Verify(key, signed, signature) }) {
		return s, fmt.Errorf("%w: no trusted key of host %q signed it", ErrForged, s.Header.Signer)
	}
	return s, nil
}
