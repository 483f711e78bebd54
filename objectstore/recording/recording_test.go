package recording

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
)

var place = Place{Tenant: "acme", Lineage: "lin1", UID: "u1"}

func signer() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("a key of tests"))
	return ed25519.NewKeyFromSeed(seed[:])
}

func trusts(host string) []ed25519.PublicKey {
	if host != "h" {
		return nil
	}
	return []ed25519.PublicKey{signer().Public().(ed25519.PublicKey)}
}

func at(ms int) time.Time {
	return time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// bench is a store with a key.
type bench struct {
	t      *testing.T
	root   string
	store  objectstore.Store
	reader *age.X25519Identity
	key    image.LineageKey
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, root: t.TempDir()}
	var err error
	if b.store, err = dir.Open(b.root); err != nil {
		t.Fatal(err)
	}
	if b.reader, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	b.key = b.newKey()
	return b
}

func (b *bench) newKey() image.LineageKey {
	b.t.Helper()
	key, objects, err := image.NewKey(place.Tenant, place.Lineage, image.Readers{Recipients: []age.Recipient{b.reader.Recipient()}, Version: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, o := range objects {
		if err := b.store.Put(b.t.Context(), o.Name, bytes.NewReader(o.Data), int64(len(o.Data))); err != nil {
			b.t.Fatal(err)
		}
	}
	return key
}

// put stores a segment with the events.
func (b *bench) put(run string, number uint64, previous *Ref, start int64, events ...Event) Ref {
	b.t.Helper()
	to, err := b.key.Public()
	if err != nil {
		b.t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := NewWriter(&sealed, to, start)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range events {
		if err := w.Add(e); err != nil {
			b.t.Fatal(err)
		}
	}
	body, err := w.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	clear, ref, err := Header{UID: place.UID, Run: run, Number: number, Previous: previous, Signer: "h", Body: body}.Seal(signer())
	if err == nil {
		err = Put(b.t.Context(), b.store, place, ref, append(clear, sealed.Bytes()...))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return ref
}

func (b *bench) run(epoch uint64) string { return RunName(epoch, b.key.KID, "abc") }

func (b *bench) follow(end *Ref) Chain {
	b.t.Helper()
	c, err := Follow(b.t.Context(), b.store, place, end, Part{}, trusts)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// events reads all of a chain.
func (b *bench) events(c Chain) (all []Event) {
	b.t.Helper()
	for _, s := range c.Segments {
		_, kid, _ := SplitRun(s.Run)
		key, err := image.UnwrapKey(b.t.Context(), b.store, place.Tenant, place.Lineage, kid, []age.Identity{b.reader})
		if err == nil {
			err = Read(b.t.Context(), b.store, place, s, key, func(e Event) error {
				all = append(all, e)
				return nil
			})
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return all
}

func out(ms int, text string) Event { return Event{Time: at(ms), Code: Output, Data: []byte(text)} }

func text(events []Event) string {
	var s strings.Builder
	for _, e := range events {
		if e.Code == Output {
			s.Write(e.Data)
		}
	}
	return s.String()
}

// What was recorded comes back byte by byte: broken UTF-8, a character in two pieces, a large piece, an event
// without data, and with its time.
func TestRoundTrip(t *testing.T) {
	b := newBench(t)
	large := strings.Repeat("ü\x1b[0m<&>", MaxData/4)
	in := []Event{
		out(0, "a\xe2"), out(1, "\x82\xac b"), out(2, "\xff\x00\xfe"), {Time: at(3), Code: Resize, Data: []byte("80x24")}, {Time: at(4), Code: Mark},
		out(5, large), {Time: at(6), Code: Errors, Data: []byte("hook")}, {Time: at(7), Code: Gap, Data: []byte("100")}, out(5, "earlier\xe2\x82"),
		{Time: at(9), Code: Exit, Data: []byte("3")},
	}
	b.put(b.run(1), 1, nil, 7, in...)
	c := b.follow(nil)
	got := b.events(c)
	if text(got) != text(in) {
		t.Errorf("the output is %.100q, want %.100q", text(got), text(in))
	}
	position, codes := int64(7), ""
	for _, e := range got {
		if e.At != position {
			t.Errorf("%s is at %d, want %d", e.Code, e.At, position)
		}
		position += e.Length()
		codes += string(e.Code)
	}
	if h := c.Segments[0].Header; h.End != position || h.Start != 7 || !h.From.Equal(at(0)) || !h.To.Equal(at(9)) || !c.Segments[0].After(at(9)) || c.Segments[0].After(at(10)) {
		t.Errorf("the header says %+v, and it ends at %d", h, position)
	}
	if !regexp.MustCompile(`^oo*ormo+ego+x$`).MatchString(codes) || !got[len(got)-1].Time.Equal(at(9)) {
		t.Errorf("the events are %s, the last at %v", codes, got[len(got)-1].Time)
	}
}

// A session that is taken back has the recording that leads to its snapshot, and what came after is none of it.
func TestRollback(t *testing.T) {
	b := newBench(t)
	one := b.put(b.run(1), 1, nil, 0, out(0, "one "))
	two := b.put(b.run(1), 2, &one, 4, out(1, "two "))
	b.put(b.run(1), 3, &two, 8, out(2, "lost "))
	b.key = b.newKey() // and runs may have other keys
	b.put(b.run(7), 1, &two, 8, out(3, "three"))
	if c := b.follow(nil); text(b.events(c)) != "one two three" || c.Why != nil {
		t.Errorf("it is %q, %v", text(b.events(c)), c.Why)
	}
	if c := b.follow(&two); text(b.events(c)) != "one two " {
		t.Errorf("at the snapshot it is %q", text(b.events(c)))
	}
}

// segments are the files of a bench's segments.
func (b *bench) segments() []string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.root, "acme/lin1/recording/u1/*/*"))
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// No segment is dropped, swapped or doubled unnoticed.
func TestChain(t *testing.T) {
	replace := func(t *testing.T, from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(t *testing.T, files []string){
		"dropped": func(t *testing.T, files []string) { _ = os.Remove(files[1]) },
		"swapped": func(t *testing.T, files []string) { replace(t, files[0], files[1]) },
		"doubled": func(t *testing.T, files []string) {
			replace(t, files[2], strings.TrimSuffix(files[2], "3")+"4")
		},
		"forged": func(t *testing.T, files []string) {
			data, err := os.ReadFile(files[2])
			if err != nil {
				t.Fatal(err)
			}
			replaced := bytes.Replace(data, []byte(`"signer":"h"`), []byte(`"signer":"g"`), 1)
			if err := os.WriteFile(files[2], replaced, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			one := b.put(b.run(1), 1, nil, 0, out(0, "one "))
			two := b.put(b.run(1), 2, &one, 4, out(1, "two "))
			b.put(b.run(1), 3, &two, 8, out(2, "three"))
			spoil(t, b.segments())
			c := b.follow(nil)
			if c.Why == nil && c.After == nil {
				t.Errorf("%d segments, and nothing is wrong", len(c.Segments))
			}
		})
	}
}

// A segment of which any byte is another, or that is cut short, isn't read.
func TestDamaged(t *testing.T) {
	b := newBench(t)
	b.put(b.run(1), 1, nil, 0, out(0, "one"))
	file := b.segments()[0]
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := image.UnwrapKey(t.Context(), b.store, place.Tenant, place.Lineage, b.key.KID, []age.Identity{b.reader})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 3 {
		for _, bad := range [][]byte{append(append(bytes.Clone(data[:i]), data[i]^1), data[i+1:]...), data[:i]} {
			if err := os.WriteFile(file, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			c := b.follow(nil)
			err := c.Why
			if len(c.Segments) > 0 {
				err = Read(t.Context(), b.store, place, c.Segments[0], key, func(Event) error { return nil })
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) {
				t.Fatalf("with byte %d of %d changed, %d bytes in all: %v", i, len(data), len(bad), err)
			}
		}
	}
}

// A segment that is stored again, after an answer that got lost, is the same one; another in its place isn't.
func TestStoredAgain(t *testing.T) {
	b := newBench(t)
	b.put(b.run(1), 1, nil, 0, out(0, "one"))
	clear, ref, err := Header{UID: place.UID, Run: b.run(1), Number: 1, Signer: "h", Body: Body{Size: 3}}.Seal(signer())
	if err != nil {
		t.Fatal(err)
	}
	if err := Put(t.Context(), b.store, place, ref, append(clear, "abc"...)); !errors.Is(err, ErrForged) {
		t.Errorf("another segment in its place: %v", err)
	}
	have := b.follow(nil).Segments[0]
	data, err := os.ReadFile(b.segments()[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := Put(t.Context(), b.store, place, have.Ref, data); err != nil {
		t.Errorf("the same once more: %v", err)
	}
}

// The commands of FORMAT.md read a segment.
func TestByHand(t *testing.T) {
	b := newBench(t)
	b.put(b.run(1), 1, nil, 0, out(0, "one <two> ü\x1b[0m"), Event{Time: at(1500), Code: Exit, Data: []byte("3")})
	document, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(document)
	bin, work := t.TempDir(), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "age"), "filippo.io/age/cmd/age").CombinedOutput(); err != nil {
		t.Fatalf("build age: %v: %s", err, out)
	}
	identity, to := filepath.Join(work, "reader.txt"), filepath.Join(work, "out")
	if err := os.WriteFile(identity, []byte(b.reader.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", string(script[1]))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "store="+b.root, "segment="+strings.TrimPrefix(b.segments()[0], b.root+"/"),
		"identity="+identity, "work="+work, "out="+to)
	if log, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	got, err := os.ReadFile(to)
	want := `[0.000000,"o","one <two> ü\u001b[0m"]` + "\n" + `[1.500000,"x","3"]` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// Keys of recordings aren't taken for left-overs of captures, and go when the lineage is shredded.
func TestKeysStay(t *testing.T) {
	b := newBench(t)
	b.put(b.run(1), 1, nil, 0, out(0, "one"))
	used := b.key
	b.newKey() // of which nothing was recorded
	collect := func() image.Collected {
		got, err := image.Collect(t.Context(), b.store, place.Tenant, place.Lineage, image.CollectOptions{Trusted: func(string, string) []ed25519.PublicKey { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	places, foreign, err := image.Places(t.Context(), b.store)
	if err != nil || len(places) != 1 || len(foreign) > 0 {
		t.Errorf("the store has %v, and %v that is not ours, %v", places, foreign, err)
	}
	survey, err := image.Check(t.Context(), b.store, image.Place{Tenant: place.Tenant, Lineage: place.Lineage}, image.CheckOptions{Trusted: func(string, string) []ed25519.PublicKey { return nil }})
	if err != nil || len(survey.Unnamed) != 1 || strings.Contains(survey.Unnamed[0], used.KID) {
		t.Errorf("of no use are %v, %v", survey.Unnamed, err)
	}
	collect()
	if got := collect(); len(got.Deleted) != 1 || strings.Contains(got.Deleted[0], used.KID) {
		t.Errorf("deleted are %v, %s is used", got.Deleted, used.KID)
	}
	if err := image.DeleteLineage(t.Context(), b.store, place.Tenant, place.Lineage); err != nil {
		t.Fatal(err)
	}
	if left := b.segments(); len(left) != 0 {
		t.Errorf("after shredding there are %v", left)
	}
}

func TestNames(t *testing.T) {
	name := place.Name(RunName(3, "0123456789abcdef", "abc"), 12)
	if run, number, ok := place.parseName(name); !ok || number != 12 || run != "0000000003-0123456789abcdef-abc" || objectstore.CheckName(name) != nil {
		t.Errorf("%s is %s, %d, %v", name, run, number, ok)
	}
	for _, bad := range []string{"", "x", place.Name("1-0123456789abcdef-abc", 1), place.Name(RunName(3, "0123456789abcdef", "abc"), 0), strings.Replace(name, "u1", "u2", 1), name + "1", name + "/x"} {
		if _, _, ok := place.parseName(bad); ok {
			t.Errorf("%q is taken for a segment", bad)
		}
	}
}

// Of any line either an event comes that is written as one that reads the same, or an error.
func FuzzLine(f *testing.F) {
	for _, s := range []string{`[0.5,"o","x"]`, `[0,"o64","/w=="]`, `[1,"c",{"a":1}]`, `[1e99,"o",""]`, `[`, `[1]`, `null`, `["o","o","o"]`, `[0.000001,"z","\ud800"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		after, e, ok, err := parseLine([]byte(line))
		if err != nil || !ok {
			return
		}
		if e.Length() < 0 || after < 0 {
			t.Fatalf("%q moves by %d, %v", line, e.Length(), after)
		}
		var b bytes.Buffer
		if err := appendLine(&b, after, e.Code, e.Data); err != nil {
			t.Fatal(err)
		}
		after2, e2, ok, err := parseLine(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
		if strings.HasSuffix(string(e.Code), base64Suffix) {
			return // such a code isn't written
		}
		if err != nil || !ok || after2 != after || !reflect.DeepEqual(e2, e) {
			t.Fatalf("%q is written %s and read %+v after %v, %v", line, b.Bytes(), e2, after2, err)
		}
	})
}

// Of any bytes of output, cut into any two pieces, the same comes back.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\xe2\x82\xac\xff"), 2)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if cut = max(cut, 0); cut > len(data) {
			cut = len(data)
		}
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		var sealed, got bytes.Buffer
		w, err := NewWriter(&sealed, id.Recipient(), 0)
		if err == nil {
			err = errors.Join(w.Add(Event{Time: at(0), Code: Output, Data: data[:cut]}), w.Add(Event{Time: at(1), Code: Output, Data: data[cut:]}))
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		opened, err := age.Decrypt(&sealed, id)
		if err == nil {
			err = decode(opened, body, func(e Event) error {
				got.Write(e.Data)
				return nil
			})
		}
		if err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Fatalf("%q comes back as %q: %v", data, got.Bytes(), err)
		}
	})
}
