package janitor

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// Subset reads "n/t" and gives the packs that belong to the n-th of t parts: who
// checks one part a day has checked all after t days.
func Subset(text string) (func(pack string) bool, error) {
	a, b, ok := strings.Cut(text, "/")
	n, err1 := strconv.ParseUint(a, 10, 32)
	t, err2 := strconv.ParseUint(b, 10, 32)
	if !ok || err1 != nil || err2 != nil || n < 1 || n > t {
		return nil, fmt.Errorf("subset %q: want N/T, the N-th of T parts, for example 3/7", text)
	}
	return func(pack string) bool {
		h := fnv.New64a()
		h.Write([]byte(pack))
		return h.Sum64()%t == n-1
	}, nil
}

// Check looks whether all that the sessions need is in the store. read chooses the
// packs that are compared with their digests; none if nil.
func (j *Janitor) Check(ctx context.Context, trusted image.Trusted, read func(pack string) bool) (schemas.StoreCheck, error) {
	out := schemas.StoreCheck{Problems: []string{}, Unknown: []string{}, Foreign: []string{}}
	heads := map[schemas.Head]bool{}
	err := j.survey(ctx, image.CheckOptions{Trusted: trusted, Read: read}, &out.Foreign, func(s image.Survey, v statekv.Versioned) {
		out.Lineages++
		out.Snapshots += len(s.Snapshots)
		out.Packs += s.Packs
		out.ReadBytes += s.Read
		out.Problems = append(out.Problems, s.Problems...)
		if v.UID == "" {
			out.Unknown = append(out.Unknown, fmt.Sprintf("%s/%s", s.Tenant, s.Lineage))
		}
		for _, l := range s.Snapshots {
			if l.Err == nil {
				heads[l.Head] = true
			}
		}
	})
	if err == nil {
		err = j.checkLog(ctx, read != nil, &out)
	}
	if err != nil {
		return out, err
	}
	// Last, since a session may have got another head meanwhile.
	records, err := j.Records.All(ctx)
	if err != nil {
		return out, fmt.Errorf("check: %w", err)
	}
	for _, v := range records {
		if v.State == schemas.Deleted || v.Head == nil || heads[*v.Head] {
			continue
		}
		if gone, err := image.Marked(ctx, j.Images, *v.Head); err != nil {
			return out, err
		} else if gone {
			out.Problems = append(out.Problems, fmt.Sprintf("session %s goes on from snapshot %s, which is missing", v.Name(), v.Head.Name))
		}
	}
	return out, nil
}

// checkLog looks whether the segments of the log are in the store.
func (j *Janitor) checkLog(ctx context.Context, data bool, out *schemas.StoreCheck) error {
	if j.Past == nil {
		return nil
	}
	c, err := j.Past.Check(ctx, data)
	out.Segments, out.ReadBytes = c.Segments, out.ReadBytes+c.ReadBytes
	out.Notes = append(out.Notes, c.Notes...)
	out.Problems, out.Unknown, out.Foreign = append(out.Problems, c.Problems...), append(out.Unknown, c.Unknown...), append(out.Foreign, c.Foreign...)
	return err
}

// Stats says what the store holds, by session.
func (j *Janitor) Stats(ctx context.Context) (schemas.StoreStats, error) {
	out := schemas.StoreStats{Sessions: []schemas.SessionStats{}}
	var foreign []string
	err := j.survey(ctx, image.CheckOptions{Trusted: j.Known}, &foreign, func(s image.Survey, v statekv.Versioned) {
		line := schemas.SessionStats{
			Lineage: s.Lineage, Snapshots: len(s.Snapshots), LogicalBytes: s.Logical, StoredBytes: s.Stored, UnusedBytes: s.UnnamedBy,
		}
		if v.UID != "" {
			line.Name = v.Name().String()
			if template, ok := v.Name().Template(); ok {
				line.Name = "template " + template
			}
		}
		out.StoredBytes += s.Stored
		out.Sessions = append(out.Sessions, line)
	})
	out.Health = health(j.Images)
	return out, err
}

// health is what a store knows of itself.
func health(images objectstore.Store) (h schemas.StoreHealth) {
	if s, ok := images.(interface {
		Failed() (at time.Time, err error)
	}); ok {
		if at, err := s.Failed(); err != nil {
			h.LastErrorAt, h.LastError = at.UTC(), err.Error()
		}
	}
	if s, ok := images.(interface {
		Room() (free, total int64, err error)
	}); ok {
		if free, total, err := s.Room(); err == nil {
			h.FreeBytes, h.TotalBytes = free, total
		}
	}
	return h
}

// survey looks at every lineage of the store, with the record of its session if
// there is one.
func (j *Janitor) survey(ctx context.Context, o image.CheckOptions, foreign *[]string, tell func(image.Survey, statekv.Versioned)) error {
	records, err := j.Records.All(ctx)
	if err != nil {
		return fmt.Errorf("look after the store: %w", err)
	}
	of := map[image.Place]statekv.Versioned{}
	for _, v := range records {
		of[image.Place{Tenant: v.Tenant, Lineage: v.Lineage}] = v
	}
	places, others, err := image.Places(ctx, j.Images)
	if err != nil {
		return err
	}
	*foreign = append(*foreign, slices.DeleteFunc(others, func(name string) bool { return strings.HasPrefix(name, segment.Prefix) })...)
	for _, p := range places {
		s, err := image.Check(ctx, j.Images, p, o)
		if err != nil {
			return err
		}
		tell(s, of[p])
	}
	return nil
}
