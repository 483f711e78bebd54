package janitor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
)

// Policy is what is kept. A zero limit is none.
type Policy struct {
	Age      time.Duration            // older snapshots go
	ClassAge map[string]time.Duration // of sessions of these classes, in its place
	Count    int                      // of one session
	Overall  int                      // of all sessions
	Bytes    int64                    // that all snapshots together have added to the store
	Largest  bool                     // the largest go first when there are too many bytes, else the oldest
	// Expire removes sessions that have been suspended for so long, with the only
	// image of them. None is removed if it is zero.
	Expire time.Duration
	// Log is what stays of the log of sessions in NATS; the rest is moved to the store.
	Log archive.Policy
}

// Default is the policy where none is set.
func Default() Policy {
	return Policy{
		Age: 7 * day, ClassAge: map[string]time.Duration{"desktop": day},
		Count: 10, Overall: 100, Bytes: 10 << 30, Log: archive.Default(),
	}
}

const day = 24 * time.Hour

// ParsePolicy reads changes of the default policy, separated by commas:
// age=7d, age.CLASS=24h, count=10, overall=100, bytes=10G, first=oldest or largest,
// expire=never or 30d, log=30d, log.count=64, log.removed=7d; 0 is no limit.
func ParsePolicy(text string) (Policy, error) {
	p := Default()
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		if err := p.set(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return Policy{}, fmt.Errorf("retention %q: %w", part, err)
		}
	}
	return p, nil
}

func (p *Policy) set(key, value string) (err error) {
	class, isClass := strings.CutPrefix(key, "age.")
	switch {
	case isClass && class != "":
		p.ClassAge = maps.Clone(p.ClassAge)
		p.ClassAge[class], err = duration(value)
	case key == "age":
		p.Age, err = duration(value)
	case key == "count":
		p.Count, err = number(value)
	case key == "overall":
		p.Overall, err = number(value)
	case key == "bytes":
		p.Bytes, err = size(value)
	case key == "first" && slices.Contains([]string{"oldest", "largest"}, value):
		p.Largest = value == "largest"
	case key == "first":
		return fmt.Errorf("want oldest or largest")
	case key == "expire" && value == "never":
		p.Expire = 0
	case key == "expire":
		p.Expire, err = duration(value)
	case key == "log":
		p.Log.Age, err = duration(value)
	case key == "log.count":
		if p.Log.Count, err = number(value); err == nil && p.Log.Count == 0 {
			err = fmt.Errorf("want 1 or more")
		}
	case key == "log.removed":
		p.Log.Removed, err = duration(value)
	default:
		return fmt.Errorf("want age, age.CLASS, count, overall, bytes, first, expire, log, log.count or log.removed")
	}
	return err
}

func duration(s string) (time.Duration, error) {
	d, err := schemas.ParseDuration(s)
	if err == nil && d < 0 {
		err = fmt.Errorf("%q: want a time that isn't negative", s)
	}
	return d, err
}

func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return n, nil
}

func size(s string) (int64, error) {
	n, err := schemas.ParseBytes(s)
	return int64(n), err
}
