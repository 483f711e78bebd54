package image

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// lineage is the place of one lineage in the store.
type lineage struct {
	tenant schemas.Tenant
	id     string
}

func newLineage(tenant schemas.Tenant, id string) (lineage, error) {
	if !schemas.ValidToken(string(tenant)) {
		return lineage{}, fmt.Errorf("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", tenant)
	}
	if !schemas.ValidToken(id) {
		return lineage{}, fmt.Errorf("lineage %q: want 1 to 64 of A-Z a-z 0-9 _ -", id)
	}
	return lineage{tenant, id}, nil
}

func (l lineage) prefix() string { return string(l.tenant) + "/" + l.id + "/" }

func (l lineage) keys() string  { return l.prefix() + "keys/" }
func (l lineage) packs() string { return l.prefix() + "packs/" }
func (l lineage) snaps() string { return l.prefix() + "snaps/" }

func (l lineage) key(kid string) string   { return l.keys() + kid + ".age" }
func (l lineage) pack(name string) string { return l.packs() + name + ".age" }
func (l lineage) ids(name string) string  { return l.packs() + name + ".ids.age" }

// outputs begins the names of what sessions printed last before they ended.
func (l lineage) outputs() string { return l.prefix() + "output/" }

// recordings begins the names of what was recorded of sessions' terminals.
func (l lineage) recordings() string { return l.prefix() + "recording/" }

func (l lineage) snap(epoch, seq uint64) string {
	return fmt.Sprintf("%s%d-%d", l.snaps(), epoch, seq)
}

// kidOf reads the kid from the name of a key object, of which there may be more
// than one for a key: "<kid>.age", "<kid>-<anything>.age".
func (l lineage) kidOf(key string) string {
	kid, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(key, l.keys()), ".age"), "-")
	return kid
}

// parseSnap reads the epoch and sequence from a snapshot's object name, and
// accepts only what snap writes.
func (l lineage) parseSnap(name string) (epoch, seq uint64, err error) {
	e, s, _ := strings.Cut(strings.TrimPrefix(name, l.snaps()), "-")
	epoch, err1 := strconv.ParseUint(e, 10, 64)
	seq, err2 := strconv.ParseUint(s, 10, 64)
	if err1 != nil || err2 != nil || l.snap(epoch, seq) != name {
		return 0, 0, fmt.Errorf("%q is not the name of a snapshot: want %s<epoch>-<seq>", name, l.snaps())
	}
	return epoch, seq, nil
}

// lineageOf reads the lineage from the name of a snapshot.
func lineageOf(snap string) (lineage, error) {
	tenant, rest, _ := strings.Cut(snap, "/")
	id, _, _ := strings.Cut(rest, "/")
	l, err := newLineage(schemas.Tenant(tenant), id)
	if err != nil {
		return lineage{}, fmt.Errorf("snapshot %q: %w", snap, err)
	}
	if _, _, err := l.parseSnap(snap); err != nil {
		return lineage{}, err
	}
	return l, nil
}

// SnapshotID gives the short form of a snapshot's name that people use:
// "<epoch>-<seq>".
func SnapshotID(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// OutputName is the name of what a session printed last before it ended, of its nth run. It is
// kept beside the images and goes with them; package seal made what is in it.
func OutputName(tenant schemas.Tenant, lineageID string, uid schemas.UID, n uint64) string {
	return fmt.Sprintf("%s%s-%d.age", lineage{tenant, lineageID}.outputs(), uid, n)
}

// RecordingPrefix begins the names of what was recorded of a session's terminal: a folder for each of its
// runs, whose name has the id of the key that is used, as package recording has it. It is kept beside the images and goes with them.
func RecordingPrefix(tenant schemas.Tenant, lineageID string, uid schemas.UID) string {
	return lineage{tenant, lineageID}.recordings() + string(uid) + "/"
}

// recordingKey reads the id of the key from the name of a part of a recording; "" if it isn't one.
func (l lineage) recordingKey(name string) string {
	rest, ok := strings.CutPrefix(name, l.recordings())
	if !ok {
		return ""
	}
	parts := strings.Split(rest, "/") // session, run, number
	if len(parts) != 3 {
		return ""
	}
	if run := strings.Split(parts[1], "-"); len(run) == 3 && isHex(run[1], 16) {
		return run[1]
	}
	return ""
}

// addRecordingKeys adds to what is named the keys of recordings, of a lineage with these objects.
func addRecordingKeys[V any](l lineage, objects map[string]V, named map[string]bool) {
	for name := range objects {
		if kid := l.recordingKey(name); kid != "" {
			named[l.key(kid)] = true
		}
	}
}

// randomName is 16 random bytes in hex.
func randomName() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	return len(s) == n && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}
