package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Place is where a lineage lies in a store.
type Place struct {
	Tenant  schemas.Tenant
	Lineage string
}

// parts are what a lineage consists of. The last words of a session that ended, and what its terminal showed, are
// kept beside its images.
var parts = []string{"keys", "packs", "snaps", "marks", "output", "recording"}

// Places lists the lineages of a store, and what in it is none of ours.
func Places(ctx context.Context, store objectstore.Store) (places []Place, foreign []string, err error) {
	seen := map[Place]bool{}
	err = store.List(ctx, "", func(i objectstore.Info) error {
		path := strings.SplitN(i.Name, "/", 4)
		if len(path) < 4 || !slices.Contains(parts, path[2]) {
			foreign = append(foreign, i.Name)
			return nil
		}
		l, err := newLineage(schemas.Tenant(path[0]), path[1])
		if err != nil {
			foreign = append(foreign, i.Name)
			return nil
		}
		if p := (Place{l.tenant, l.id}); !seen[p] {
			seen[p] = true
			places = append(places, p)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list lineages: %w", err)
	}
	slices.SortFunc(places, func(a, b Place) int {
		return strings.Compare(string(a.Tenant)+"/"+a.Lineage, string(b.Tenant)+"/"+b.Lineage)
	})
	return places, foreign, nil
}

// CheckOptions say how thoroughly a lineage is looked at.
type CheckOptions struct {
	Trusted Trusted
	// Read, if given, chooses the packs that are read whole and compared with
	// their digests, by name.
	Read func(pack string) bool
	// Patience is how long a store may give nothing of a pack that is read before
	// that is a problem of the pack, 30 s if zero: some answer for a damaged object as
	// if they were busy. It is halved for each such pack in a row.
	Patience time.Duration
}

// Survey is what was found of a lineage.
type Survey struct {
	Place
	Snapshots []Listed
	Packs     int   // that snapshots name
	Logical   int64 // bytes, of the contents of all snapshots
	Stored    int64 // bytes, of all objects
	Unnamed   []string
	UnnamedBy int64 // bytes of these
	Marked    int   // objects that are going to be deleted
	Read      int64 // bytes that were read and compared
	Problems  []string
}

// Check looks whether all that the snapshots of a lineage need is there: headers
// that are signed by trusted writers, keys, packs and ids of the right size. With
// Read it also compares packs with their digests. It needs no secret, changes
// nothing, and may run beside captures and deletions. What is wrong is in the
// survey; an error means that the store couldn't be read.
func Check(ctx context.Context, store objectstore.Store, p Place, o CheckOptions) (Survey, error) {
	c := checker{ctx: ctx, store: store, options: o, survey: Survey{Place: p}, read: map[string]bool{}}
	var err error
	if c.place, err = newLineage(p.Tenant, p.Lineage); err == nil {
		err = c.check()
	}
	if err != nil {
		return c.survey, fmt.Errorf("check %s/%s: %w", p.Tenant, p.Lineage, err)
	}
	return c.survey, nil
}

type checker struct {
	ctx     context.Context
	store   objectstore.Store
	place   lineage
	options CheckOptions
	survey  Survey
	objects map[string]int64
	kids    map[string]bool
	read    map[string]bool // packs that were
	stalled int             // packs in a row of which the store gave nothing
}

func (c *checker) check() (err error) {
	// Headers first: what is deleted meanwhile is looked at once more.
	c.survey.Snapshots, err = List(c.ctx, c.store, c.place.tenant, c.place.id, c.options.Trusted)
	if err != nil {
		return err
	}
	if err := c.list(); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, s := range c.survey.Snapshots {
		if s.Err != nil {
			c.problem("%s: %v", s.Head.Name, s.Err)
			continue
		}
		c.survey.Logical += s.Header.LogicalBytes
		eachNamed(c.place, s.Header, func(name string, _ int64) { named[name] = true })
		if err := c.snapshot(s); err != nil {
			return err
		}
	}
	c.unnamed(named)
	return nil
}

func (c *checker) problem(format string, args ...any) {
	c.survey.Problems = append(c.survey.Problems, fmt.Sprintf(format, args...))
}

func (c *checker) list() error {
	c.objects, c.kids = map[string]int64{}, map[string]bool{}
	return c.store.List(c.ctx, c.place.prefix(), func(i objectstore.Info) error {
		c.survey.Stored += i.Size
		if strings.HasPrefix(i.Name, c.place.marks()) {
			if !strings.HasPrefix(i.Name, c.place.clock()) {
				c.survey.Marked++
			}
			return nil
		}
		c.objects[i.Name] = i.Size
		if strings.HasPrefix(i.Name, c.place.keys()) {
			c.kids[c.place.kidOf(i.Name)] = true
		}
		return nil
	})
}

// snapshot checks what one snapshot needs. What is wrong with one that was deleted
// meanwhile doesn't count.
func (c *checker) snapshot(s Listed) error {
	var wrong []string
	eachNamed(c.place, s.Header, func(name string, size int64) {
		have, there := c.objects[name]
		switch {
		case size < 0 && !c.kids[c.place.kidOf(name)]:
			wrong = append(wrong, name+" is missing: what is encrypted to it is lost")
		case size >= 0 && !there:
			wrong = append(wrong, name+" is missing")
		case size >= 0 && have != size:
			wrong = append(wrong, fmt.Sprintf("%s has %d bytes instead of %d", name, have, size))
		}
	})
	for _, p := range s.Header.Packs {
		text, err := c.pack(p)
		if err != nil {
			return err
		}
		if text != "" {
			wrong = append(wrong, text)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	if _, err := fetchHeader(c.ctx, c.store, s.Head.Name); errors.Is(err, ErrNotFound) {
		return nil
	}
	slices.Sort(wrong)
	for _, text := range slices.Compact(wrong) {
		c.problem("%s needs it: %s", s.Head.Name, text)
	}
	return nil
}

// pack compares a pack with its digest, if it is to be read and wasn't.
func (c *checker) pack(p schemas.ImagePack) (wrong string, err error) {
	if c.read[p.Name] {
		return "", nil
	}
	c.survey.Packs++
	c.read[p.Name] = true
	name := c.place.pack(p.Name)
	if c.options.Read == nil || !c.options.Read(p.Name) || c.objects[name] != p.Size {
		return "", nil
	}
	n, intact, err := c.compare(name, p)
	c.survey.Read += n
	switch {
	case errors.Is(err, errStalled):
		return fmt.Sprintf("%s can't be read: %v", name, err), nil
	case errors.Is(err, objectstore.ErrNotFound):
		return name + " is missing", nil
	case err != nil:
		return "", err
	case !intact:
		return name + " is not what was written", nil
	}
	return "", nil
}

// errStalled is why the reading of a pack was given up.
var errStalled = errors.New("the store gives nothing of it")

// compare is comparePack with a timeout that is reset by every byte.
func (c *checker) compare(name string, p schemas.ImagePack) (n int64, intact bool, err error) {
	patience := c.options.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	patience >>= min(c.stalled, 5)
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	over := time.AfterFunc(patience, func() { cancel(errStalled) })
	defer over.Stop()
	n, intact, err = comparePack(ctx, patient{c.store, func() { over.Reset(patience) }}, name, p)
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		c.stalled++
		return n, false, fmt.Errorf("%w: %w", errStalled, err)
	}
	c.stalled = 0
	return n, intact, err
}

// patient tells of every read that gives something.
type patient struct {
	objectstore.Store
	heard func()
}

func (p patient) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	body, err := p.Store.Get(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	return hearing{body, p.heard}, nil
}

type hearing struct {
	io.ReadCloser
	heard func()
}

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	if n > 0 {
		h.heard()
	}
	return n, err
}

// unnamed counts what nothing needs.
func (c *checker) unnamed(named map[string]bool) {
	addRecordingKeys(c.place, c.objects, named)
	for name, size := range c.objects {
		if !c.place.isPart(name) || isNamed(c.place, named, name) {
			continue
		}
		c.survey.Unnamed = append(c.survey.Unnamed, name)
		c.survey.UnnamedBy += size
	}
	slices.Sort(c.survey.Unnamed)
}

// comparePack reads a pack and compares it with what a header says of it. It
// decrypts and keeps nothing, and returns how many bytes it read.
func comparePack(ctx context.Context, store objectstore.Store, name string, p schemas.ImagePack) (n int64, intact bool, err error) {
	body, err := store.Get(ctx, name, 0, -1)
	if err != nil {
		return 0, false, err
	}
	defer body.Close()
	// One byte more than there may be tells of an object that grew.
	n, sum, err := digestAs(p, io.LimitReader(body, p.Size+1))
	if err != nil {
		return n, false, fmt.Errorf("read %s: %w", name, err)
	}
	return n, n == p.Size && sum == digested(p).SHA256, nil
}

// digestAs reads a pack to its end and makes the digest that its reference has.
func digestAs(p schemas.ImagePack, pack io.Reader) (n int64, sum string, err error) {
	span := make([]byte, spanSize)
	if p.SHA256 != "" {
		whole := sha256.New()
		n, err = io.CopyBuffer(whole, pack, span)
		return n, hex.EncodeToString(whole.Sum(nil)), err
	}
	var spans []string
	for {
		m, err := io.ReadFull(pack, span)
		if n += int64(m); m > 0 {
			spans = append(spans, spanDigest(span[:m]))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return n, spansDigest(spans), nil
		}
		if err != nil {
			return n, "", err
		}
	}
}
