package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// pipelike borrows what it is given, and looks at it only when late bytes more have come.
type pipelike struct {
	got   bytes.Buffer
	late  int
	loans []pipeLoan
	held  int // bytes
	most  int // bytes that were borrowed in all
	fail  error
}

type pipeLoan struct {
	data []byte
	done func(bool)
}

func (p *pipelike) Write(b []byte) (int, error) {
	p.settle(0)
	return p.got.Write(b)
}

func (p *pipelike) Borrow(data []byte, done func(bool)) (int, error) {
	if p.fail != nil {
		done(true)
		return 0, p.fail
	}
	p.loans = append(p.loans, pipeLoan{data, done})
	p.held += len(data)
	p.most += len(data)
	p.settle(p.late)
	return len(data), nil
}

func (p *pipelike) settle(late int) {
	for len(p.loans) > 0 && p.held > late {
		o := p.loans[0]
		p.got.Write(o.data)
		o.done(false)
		p.held -= len(o.data)
		p.loans = p.loans[1:]
	}
}

// lentImage is one of three files of frames of usual size, in which some pages are there twice.
func lentImage(f *fixture) (Head, []item) {
	f.Helper()
	a, b := text(9<<20), text(7<<20)
	clear(b[2<<20 : 3<<20])
	items := []item{fileItem("criu/pages-1.img", a), fileItem("criu/pages-2.img", b), fileItem("criu/pages-3.img", append(a[:3<<20:3<<20], b...))}
	_, head, _ := f.write(f.options(), items)
	return head, items
}

// What is lent stays as it is until it is given back, though buffers are used again all the time.
func TestLentStays(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	f := newFixture(t)
	head, items := lentImage(f)
	r := f.open(head)
	r.frames.limit, r.spans.limit = 10<<20, 2<<20
	names := []string{items[0].Name, items[1].Name, items[2].Name}
	r.Sequence(names, 64<<20)
	for i, name := range names {
		in, err := r.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		to := &pipelike{late: 3 << 20}
		_, err = io.Copy(to, in)
		to.settle(0)
		if err != nil || !bytes.Equal(to.got.Bytes(), items[i].data) {
			t.Fatalf("%s: %d bytes that differ (%v)", name, to.got.Len(), err)
		}
		if i == 0 && to.most < len(items[i].data)/2 {
			t.Errorf("%s: only %d bytes of %d were lent", name, to.most, len(items[i].data))
		}
	}
	if n := len(r.buffers.mapped); n > 40 {
		t.Errorf("%d buffers are mapped for a cache of 10", n)
	}
	if err := r.Close(); err != nil || len(r.buffers.mapped) != 0 {
		t.Errorf("after Close %d buffers are mapped (%v)", len(r.buffers.mapped), err)
	}
}

// What a pipe may still refer to is unmapped, not used again.
func TestLentAndLost(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	f := newFixture(t)
	head, items := lentImage(f)
	r := f.open(head)
	in, err := r.Open(items[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the pipe is broken")
	if _, err := io.Copy(&pipelike{fail: broken}, in); !errors.Is(err, broken) {
		t.Errorf("copying gives %v", err)
	}
	f.check(head, items) // by another reader
	got := make([]byte, len(items[0].data))
	if _, err := in.(*stream).file.ReadAt(got, 0); err != nil && err != io.EOF || !bytes.Equal(got, items[0].data) {
		t.Errorf("it can't be read once more: %v", err)
	}
	if err := r.Close(); err != nil || len(r.buffers.mapped) != 0 {
		t.Errorf("after Close %d buffers are mapped (%v)", len(r.buffers.mapped), err)
	}
}

// Of files in their order nothing is kept but what is in them twice; scattered ones need more.
func TestKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	head, items := lentImage(f)
	r := f.open(head)
	if n := r.Kept([]string{items[0].Name}); n != 0 {
		t.Errorf("of one file in its order %d bytes are kept", n)
	}
	all := []string{items[0].Name, items[1].Name, items[2].Name}
	if n := r.Kept(all); n < 3<<20 || n > 10<<20 {
		t.Errorf("of three files of which one repeats the others %d bytes are kept", n)
	}
	if n := r.Kept([]string{"none"}); n != 0 {
		t.Errorf("of what isn't there %d bytes are kept", n)
	}
}

// The buffers of a reader are given back in any order, also after it was closed.
func TestBuffers(t *testing.T) {
	t.Parallel()
	b := newBuffers()
	for _, n := range []int{0, 4096, bufferSize/2 - 1, bufferSize + 1} {
		if buf := b.get(n); b.lendable(buf) || cap(buf) < n {
			t.Errorf("%d bytes are in a buffer of %d", n, cap(buf))
		}
	}
	first, second, third := b.get(bufferSize), b.get(bufferSize/2), b.get(bufferSize)
	b.put(first)
	if again := b.get(bufferSize); &again[:1][0] != &first[:1][0] {
		t.Error("a buffer isn't used again")
	}
	b.discard(second[:10])
	if b.lendable(second) || len(b.mapped) != 2 {
		t.Errorf("a buffer that was discarded is there: %d", len(b.mapped))
	}
	b.put(third)
	b.close()
	if len(b.mapped) != 1 {
		t.Errorf("%d buffers are mapped, want the one in use", len(b.mapped))
	}
	b.put(first)
	if len(b.mapped) != 0 {
		t.Error(fmt.Sprint("a buffer outlives close: ", len(b.mapped)))
	}
}
