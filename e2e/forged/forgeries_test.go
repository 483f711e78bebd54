package forged

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
)

// objects are those of a store, by their names.
type objects map[string][]byte

// store is the directory of a tenant, with what the cases speak of.
type store struct {
	root           string
	lineage, other string // of the session, and of another one
	head           string // the snapshot's id
}

func (s store) read(t *testing.T) objects {
	t.Helper()
	all := objects{}
	err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.root, path)
		if err == nil {
			all[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// write makes what the store was into what it shall be.
func (s store) write(t *testing.T, was, shall objects) {
	t.Helper()
	for name := range was {
		if _, ok := shall[name]; !ok {
			if err := os.Remove(filepath.Join(s.root, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, data := range shall {
		if old, ok := was[name]; ok && bytes.Equal(old, data) {
			continue
		}
		if err := os.WriteFile(filepath.Join(s.root, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot is a snapshot's object, in its parts.
type snapshot struct {
	header    []byte // the second line
	signature []byte // the third
	index     []byte
	packs     []string // names of their objects
}

func (s store) snapshot(all objects, id string) (p snapshot, err error) {
	data := all[s.lineage+"/snaps/"+id]
	lines := bytes.SplitN(data, []byte("\n"), 4)
	if len(lines) != 4 {
		return p, fmt.Errorf("snapshot %s of %d bytes has no header", id, len(data))
	}
	p = snapshot{header: lines[1], signature: lines[2], index: lines[3]}
	var h struct{ Packs []struct{ Name string } }
	if err := json.Unmarshal(p.header, &h); err != nil {
		return p, fmt.Errorf("read the header of %s: %w", id, err)
	}
	for _, pack := range h.Packs {
		p.packs = append(p.packs, s.lineage+"/packs/"+pack.Name+".age")
	}
	return p, nil
}

const magic = "diapause-image-v1\n"

func (p snapshot) object() []byte {
	return bytes.Join([][]byte{[]byte(strings.TrimSpace(magic)), p.header, p.signature, p.index}, []byte("\n"))
}

// signedBy gives the snapshot another writer's signature.
func (p snapshot) signedBy(key ed25519.PrivateKey) snapshot {
	sum := ed25519.Sign(key, []byte(magic+string(p.header)+"\n"))
	p.signature = []byte(base64.StdEncoding.EncodeToString(sum))
	return p
}

// forgeries are the cases: whole stores, each with one thing wrong.
func forgeries(good objects, s store) (map[string]objects, error) {
	head, err := s.snapshot(good, s.head)
	if err != nil {
		return nil, err
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	c := cases{good: good, all: map[string]objects{}}
	name := s.lineage + "/snaps/" + s.head
	begin := len(magic)
	c.flip("header", name, begin+20, begin+len(head.header)/2, begin+len(head.header)-2)
	c.flip("magic", name, 3)
	c.flip("signature", name, begin+len(head.header)+5)
	c.flip("index", name, len(good[name])-len(head.index), len(good[name])-len(head.index)/2, len(good[name])-1)
	c.truncate("snapshot", name)
	for i, pack := range head.packs {
		size := len(good[pack])
		c.flip(fmt.Sprintf("pack %d", i), pack, 0, size/2, size-1)
		c.truncate(fmt.Sprintf("pack %d", i), pack)
	}
	c.put("pack of another session", head.packs[0], c.someOther(s, "packs"))
	c.put("snapshot of another session", name, c.someOther(s, "snaps"))
	if older := c.someOlder(s); older != nil {
		c.put("older snapshot in the head's place", name, older)
	}
	c.put("unknown writer", name, head.signedBy(stranger).object())
	unsigned := head
	unsigned.signature = nil
	c.put("not signed", name, unsigned.object())
	if err := c.encryptedAgain(head, name); err != nil {
		return nil, err
	}
	for object := range good {
		if strings.HasPrefix(object, s.lineage+"/keys/") {
			c.flip("key", object, 5, len(good[object])-1)
			c.truncate("key", object)
			c.put("key of another session", object, c.someOther(s, "keys"))
		}
	}
	return c.all, nil
}

type cases struct {
	good objects
	all  map[string]objects
}

// put is a case with other content of an object; nil is none.
func (c cases) put(what, object string, data []byte) {
	bad := maps.Clone(c.good)
	if bad[object] = data; data == nil {
		delete(bad, object)
	}
	c.all[what] = bad
}

// flip has one bit of an object other than it was, a case for each place.
func (c cases) flip(what, object string, places ...int) {
	for _, at := range places {
		b := bytes.Clone(c.good[object])
		b[at] ^= 1
		c.put(fmt.Sprintf("%s, bit at %d of %d", what, at, len(b)), object, b)
	}
}

func (c cases) truncate(what, object string) {
	b := c.good[object]
	c.put(what+", last byte missing", object, b[:len(b)-1])
	c.put(what+", half", object, b[:len(b)/2])
	c.put(what+", empty", object, []byte{})
	c.put(what+", gone", object, nil)
}

// someOther gives an object of that kind of the other session.
func (c cases) someOther(s store, kind string) []byte {
	for name, data := range c.good {
		if strings.HasPrefix(name, s.other+"/"+kind+"/") && !strings.HasSuffix(name, ".ids.age") {
			return data
		}
	}
	return nil
}

// someOlder gives a snapshot of the session that isn't its head.
func (c cases) someOlder(s store) []byte {
	for name, data := range c.good {
		if strings.HasPrefix(name, s.lineage+"/snaps/") && !strings.HasSuffix(name, "/"+s.head) {
			return data
		}
	}
	return nil
}

// encryptedAgain has an index that someone encrypted for us, as anyone may: the
// recipient is in the header.
func (c cases) encryptedAgain(head snapshot, name string) error {
	var h struct{ Recipient string }
	if err := json.Unmarshal(head.header, &h); err != nil {
		return fmt.Errorf("read the header: %w", err)
	}
	to, err := age.ParseX25519Recipient(h.Recipient)
	if err != nil {
		return fmt.Errorf("read the recipient: %w", err)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to)
	if err == nil {
		_, err = w.Write([]byte(`{"index":1,"packs":0,"entries":0}` + "\n"))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("encrypt an index: %w", err)
	}
	forged := head
	forged.index = b.Bytes()
	c.put("encrypted for us, not signed", name, forged.object())
	c.put("pack encrypted for us", head.packs[0], b.Bytes())
	return nil
}
