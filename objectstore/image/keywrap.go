package image

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
)

// Kinds of wrap: age mixes classic and post-quantum recipients in no file.
const (
	wrapClassic = "classic"
	wrapPQ      = "pq"
)

// wrapSet says for whom lineage keys are: the readers, as of a version that grows
// whenever they change. A key that is wrapped to a set has one object for each
// kind of reader in it.
type wrapSet struct {
	version uint64
	digest  string // of all readers, 16 hex digits
	groups  []wrapGroup
}

// wrapGroup are readers that one age file can be for.
type wrapGroup struct {
	kind       string
	recipients []age.Recipient
}

// wrap is a lineage key, wrapped to the readers of one kind.
type wrap struct {
	name string // within keys/
	data []byte
}

func newWrapSet(version uint64, recipients []age.Recipient) (wrapSet, error) {
	byText := map[string]age.Recipient{}
	var texts []string
	for _, r := range recipients {
		text, ok := r.(fmt.Stringer)
		if !ok {
			return wrapSet{}, fmt.Errorf("recipient %T: want age's X25519 or hybrid post-quantum ones", r)
		}
		byText[text.String()] = r
		texts = append(texts, text.String())
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	s := wrapSet{version: version, digest: hexDigest([]byte(strings.Join(texts, "\n")))[:16]}
	for _, kind := range []string{wrapClassic, wrapPQ} {
		g := wrapGroup{kind: kind}
		for _, text := range texts {
			if kindOf(byText[text]) == kind {
				g.recipients = append(g.recipients, byText[text])
			}
		}
		if len(g.recipients) > 0 {
			s.groups = append(s.groups, g)
		}
	}
	return s, nil
}

func kindOf(r age.Recipient) string {
	if _, ok := r.(*age.HybridRecipient); ok {
		return wrapPQ
	}
	return wrapClassic
}

// postQuantum reports whether none of the readers is classic.
func (s wrapSet) postQuantum() bool { return len(s.groups) == 1 && s.groups[0].kind == wrapPQ }

// wrap encrypts a lineage key's secret half to every reader of the set.
func (s wrapSet) wrap(key LineageKey, secret string) ([]wrap, error) {
	if len(s.groups) == 0 {
		return nil, errors.New("wrap lineage key: no recipients")
	}
	text := fmt.Sprintf("# diapause lineage key %s\n# public key: %s\n%s\n", key.KID, key.Recipient, secret)
	var out []wrap
	for _, g := range s.groups {
		data, err := encrypt([]byte(text), g.recipients...)
		if err != nil {
			return nil, fmt.Errorf("wrap lineage key %s: %w", key.KID, err)
		}
		out = append(out, wrap{wrapName{key.KID, s.version, s.digest, g.kind}.String(), data})
	}
	return out, nil
}

// wrapName is the name of a key object: which key, of which version of which
// readers, and of which kind they are. Objects of other names are as good for
// reading, and older than any of these.
type wrapName struct {
	kid     string
	version uint64
	digest  string
	kind    string
}

func (n wrapName) String() string {
	return fmt.Sprintf("%s-%d-%s-%s.age", n.kid, n.version, n.digest, n.kind)
}

func parseWrapName(name string) (wrapName, bool) {
	parts := strings.Split(strings.TrimSuffix(name, ".age"), "-")
	if len(parts) != 4 {
		return wrapName{}, false
	}
	version, err := strconv.ParseUint(parts[1], 10, 64)
	n := wrapName{parts[0], version, parts[2], parts[3]}
	return n, err == nil && n.String() == name
}

// wrapsOf are the key objects of one lineage key that are in the store, by their
// names within keys/.
type wrapsOf []string

// standing is what the wraps of a key are, seen from a set of readers.
type standing struct {
	done  bool     // it is wrapped to them, and nothing older is left
	put   bool     // it has to be wrapped to them again
	from  uint64   // the version to rely on, once all of it is there
	older []string // what may go then: wraps of a lower version
}

// plan decides what has to be done for a key to be wrapped to a set of readers,
// and to none who came before.
//
// It removes only wraps of a lower version than a complete set that is there. Of two
// hosts that wrap the same key to different readers, the one with the older view
// deletes nothing of the other's, so that the key is wrapped to a reader at any
// moment. A host that finds newer wraps than its own view changes nothing.
func (w wrapsOf) plan(s wrapSet) standing {
	kinds := map[uint64]int{} // of the set's digest, by version
	var highest uint64        // of wraps to others
	others := false
	for _, name := range w {
		n, ok := parseWrapName(name)
		switch {
		case ok && n.digest == s.digest:
			kinds[n.version]++
		case ok && n.version > s.version:
			return standing{done: true} // the view is stale
		case ok:
			highest, others = max(highest, n.version), true
		}
	}
	out := standing{put: true, from: s.version}
	for version, n := range kinds {
		if n == len(s.groups) && (out.put || version > out.from) {
			out.put, out.from = false, version
		}
	}
	if !out.put && others && highest >= out.from && out.from < s.version {
		out.put, out.from = true, s.version
	}
	for _, name := range w {
		if n, ok := parseWrapName(name); !ok || n.version < out.from {
			out.older = append(out.older, name)
		}
	}
	slices.SortFunc(out.older, cmp.Compare[string])
	out.done = !out.put && len(out.older) == 0
	return out
}
