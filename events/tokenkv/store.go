package tokenkv

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

var (
	// ErrNone is the answer to a token that isn't one, has expired or was revoked.
	ErrNone = errors.New("no such token, or it has expired or was revoked")
	// ErrNoBucket: the streams were made by a version that knows no tokens.
	ErrNoBucket = errors.New("the streams have no bucket of tokens")
)

const (
	secretBytes = 32
	idLetters   = 12 // of the digest
	// usedEvery is how often it is written down that a token was used, at most.
	usedEvery = time.Minute
	// useWait is how long a request waits for that.
	useWait = time.Second
	// kept is how long the record of a token that can't be used any more is kept; keptBriefly of those that
	// a browser gets by the way, and of shares, which one who may use a session makes at will.
	kept        = 30 * 24 * time.Hour
	keptBriefly = time.Hour
)

// Store makes and checks tokens. It is safe for concurrent use.
type Store struct {
	names  stream.Names
	writer cas.Writer
	now    func() time.Time

	mu   sync.Mutex
	told map[string]time.Time // by id: when this process wrote down a use last, or tried to
}

// Open finds the bucket; stream.Ensure makes it. The error is ErrNoBucket if there is none.
func Open(ctx context.Context, js jetstream.JetStream, names stream.Names) (*Store, error) {
	w, err := cas.Open(ctx, js, names.Tokens())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrNoBucket, err)
	}
	if err != nil {
		return nil, err
	}
	return &Store{names: names, writer: w, now: time.Now, told: map[string]time.Time{}}, nil
}

// Create makes a token and gives it, and its record. r has passed Validate.
func (s *Store) Create(ctx context.Context, t schemas.Tenant, r schemas.TokenRequest, by string) (token string, rec schemas.TokenRecord, err error) {
	if err := r.Validate(t); err != nil {
		return "", rec, err
	}
	now := s.now().UTC().Truncate(time.Second)
	rec = schemas.TokenRecord{Role: r.Role, Tenant: t, Session: r.Session, By: by, Expires: now.Add(time.Duration(r.For))}
	if r.Link {
		rec.Role, rec.As, rec.Long, rec.Expires = schemas.TokenLink, r.Role, r.For, now.Add(schemas.LinkFor)
	}
	return s.Make(ctx, rec)
}

// Make makes the token of a record that says all but what comes of the token, and gives both.
func (s *Store) Make(ctx context.Context, r schemas.TokenRecord) (token string, rec schemas.TokenRecord, err error) {
	token = schemas.TokenPrefix + secret()
	if r.Role == schemas.TokenLogin {
		token += half + secret()
	}
	r.Digest = digestOf(token)
	r.ID, r.Created = r.Digest[:idLetters], s.now().UTC().Truncate(time.Second)
	if _, err := s.write(ctx, stored{r, 0}); err != nil {
		return "", rec, err
	}
	return token, r, nil
}

// half is between the two secrets of a login: that of the cookie, and that of the page. Either alone finds nothing.
const half = "."

func secret() string {
	data := make([]byte, secretBytes)
	_, _ = rand.Read(data) // never fails
	return base64.RawURLEncoding.EncodeToString(data)
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// wellFormed reports whether a text can be a token, so that nothing else is looked up.
func wellFormed(token string) bool {
	secrets, ok := strings.CutPrefix(token, schemas.TokenPrefix)
	if !ok {
		return false
	}
	first, second, two := strings.Cut(secrets, half)
	return wellFormedSecret(first) && (!two || wellFormedSecret(second))
}

func wellFormedSecret(s string) bool {
	data, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(data) == secretBytes
}

// Check gives the record of a token that may be used now; ErrNone if there is none. What keeps it from
// writing down the use goes to warn and stops nothing.
func (s *Store) Check(ctx context.Context, token string, warn func(error)) (schemas.TokenRecord, error) {
	now := s.now()
	v, err := s.usable(ctx, token, now)
	if err != nil {
		return schemas.TokenRecord{}, err
	}
	if s.due(v, now) {
		if err := s.use(ctx, v, now); err != nil {
			warn(err)
		}
	}
	return v.TokenRecord, nil
}

// usable gives the record of a token that may be used; ErrNone if there is none.
func (s *Store) usable(ctx context.Context, token string, now time.Time) (stored, error) {
	if !wellFormed(token) {
		return stored{}, ErrNone
	}
	v, err := s.get(ctx, digestOf(token))
	if err != nil {
		return stored{}, err
	}
	if v.seq == 0 || !valid(v.TokenRecord, now) {
		return stored{}, ErrNone
	}
	return v, s.within(ctx, v.TokenRecord, now)
}

// within looks whether the login is valid that a record ends with.
func (s *Store) within(ctx context.Context, r schemas.TokenRecord, now time.Time) error {
	if r.Of == "" {
		return nil
	}
	login, err := s.get(ctx, r.Of)
	if err != nil {
		return err
	}
	if login.seq == 0 || !valid(login.TokenRecord, now) {
		return ErrNone
	}
	return nil
}

// Consume gives the record of a token that is good for once, and ends it. Of many at the same time one has it;
// ErrNone is for the others.
func (s *Store) Consume(ctx context.Context, token string) (schemas.TokenRecord, error) {
	for {
		now := s.now()
		v, err := s.usable(ctx, token, now)
		if err != nil {
			return schemas.TokenRecord{}, err
		}
		v.Revoked, v.Used = now.UTC().Truncate(time.Second), now.UTC().Truncate(time.Second)
		if _, err = s.write(ctx, v); !errors.Is(err, cas.ErrConflict) {
			return v.TokenRecord, err
		}
	}
}

// due reports whether a use is to be written down, and won't say so again for a while.
func (s *Store) due(v stored, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(v.Used) < usedEvery || now.Sub(s.told[v.ID]) < usedEvery {
		return false
	}
	s.told[v.ID] = now
	return true
}

// use writes down that a token was used. What was written meanwhile stays: another use, or its end.
func (s *Store) use(ctx context.Context, v stored, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, useWait)
	defer cancel()
	v.Used = now.UTC().Truncate(time.Second)
	if _, err := s.write(ctx, v); err != nil && !errors.Is(err, cas.ErrConflict) {
		return err
	}
	return nil
}

func valid(r schemas.TokenRecord, now time.Time) bool {
	return r.Revoked.IsZero() && now.Before(r.Expires)
}

// List gives the records of all tokens, the newest first.
func (s *Store) List(ctx context.Context) (all []schemas.TokenRecord, err error) {
	found, err := s.all(ctx)
	for _, v := range found {
		all = append(all, v.TokenRecord)
	}
	slices.SortFunc(all, func(a, b schemas.TokenRecord) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

func (s *Store) all(ctx context.Context) (all []stored, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	complete := false
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	err = stream.Consume(ctx, s.writer.JS, s.writer.Stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error {
		if v, err := decode(msg.Data, meta.Sequence.Stream); err == nil && !live {
			all = append(all, v)
		}
		return nil
	}, func() { complete = true; stop() }, func() {})
	if err == nil && !complete {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list the tokens: %w", err)
	}
	return all, nil
}

// Revoke ends a token for good. The error is ErrNone if no token has that id.
func (s *Store) Revoke(ctx context.Context, id string) (schemas.TokenRecord, error) {
	found, err := s.all(ctx)
	if err != nil {
		return schemas.TokenRecord{}, err
	}
	i := slices.IndexFunc(found, func(v stored) bool { return v.ID == id })
	if i < 0 {
		return schemas.TokenRecord{}, ErrNone
	}
	return s.end(ctx, found[i])
}

// End is Revoke of a record that List gave.
func (s *Store) End(ctx context.Context, r schemas.TokenRecord) error {
	v, err := s.get(ctx, r.Digest)
	if err != nil || v.seq == 0 { // it is forgotten
		return err
	}
	_, err = s.end(ctx, v)
	return err
}

func (s *Store) end(ctx context.Context, v stored) (schemas.TokenRecord, error) {
	for {
		if !v.Revoked.IsZero() {
			return v.TokenRecord, nil
		}
		v.Revoked = s.now().UTC().Truncate(time.Second)
		_, err := s.write(ctx, v)
		if !errors.Is(err, cas.ErrConflict) {
			return v.TokenRecord, err
		}
		if v, err = s.get(ctx, v.Digest); err != nil || v.seq == 0 { // it was used meanwhile
			return v.TokenRecord, cmp.Or(err, ErrNone)
		}
	}
}

// Sweep forgets tokens that can't be used since a while.
func (s *Store) Sweep(ctx context.Context) error {
	found, err := s.all(ctx)
	if err != nil {
		return err
	}
	for _, v := range found {
		over := v.Expires
		if !v.Revoked.IsZero() {
			over = v.Revoked
		}
		long := kept
		switch v.Role {
		case schemas.TokenLink, schemas.TokenCode, schemas.TokenPort, schemas.TokenWatcher:
			long = keptBriefly
		}
		if s.now().Sub(over) < long {
			continue
		}
		if err := s.writer.Stream.Purge(ctx, jetstream.WithPurgeSubject(s.names.TokenSubject(v.Digest))); err != nil {
			return fmt.Errorf("forget token %s: %w", v.ID, err)
		}
	}
	return nil
}

// stored is a record as it stood at a sequence of the stream; 0 if there is none.
type stored struct {
	schemas.TokenRecord
	seq uint64
}

func (s *Store) get(ctx context.Context, digest string) (stored, error) {
	data, seq, err := s.writer.Last(ctx, s.names.TokenSubject(digest))
	if err != nil {
		return stored{}, fmt.Errorf("read the token: %w", err)
	}
	if seq == 0 {
		return stored{}, nil
	}
	v, err := decode(data, seq)
	if err == nil && v.Digest != digest {
		err = fmt.Errorf("the record of token %s lies at another", v.ID)
	}
	return v, err
}

func decode(data []byte, seq uint64) (stored, error) {
	v := stored{seq: seq}
	if err := json.Unmarshal(data, &v.TokenRecord); err != nil {
		return stored{}, fmt.Errorf("decode the token at revision %d: %w", seq, err)
	}
	return v, nil
}

func (s *Store) write(ctx context.Context, v stored) (uint64, error) {
	v.Change = nuid.Next()
	data, err := json.Marshal(v.TokenRecord)
	if err != nil {
		return 0, fmt.Errorf("encode token %s: %w", v.ID, err)
	}
	seq, err := s.writer.Write(ctx, s.names.TokenSubject(v.Digest), v.seq, data, func(data []byte) bool {
		other, err := decode(data, 0)
		return err == nil && other.Change == v.Change
	})
	if err != nil {
		return 0, fmt.Errorf("write token %s: %w", v.ID, err)
	}
	return seq, nil
}
