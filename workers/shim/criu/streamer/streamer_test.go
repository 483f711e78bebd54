package streamer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// criu is the other end, as criu has it.
type criu struct {
	t *testing.T
	c *net.UnixConn
}

func connect(t *testing.T, dir, socket string) *criu {
	t.Helper()
	d, err := os.Open(dir) // its path may be too long for an address
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socket)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &criu{t, c}
}

func (c *criu) ask(name string) {
	c.t.Helper()
	m := append([]byte{1<<3 | 2, byte(len(name))}, name...)
	if _, err := c.c.Write(append(binary.NativeEndian.AppendUint32(nil, uint32(len(m))), m...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *criu) exists() bool {
	c.t.Helper()
	b := make([]byte, 6)
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatal(err)
	}
	if binary.NativeEndian.Uint32(b) != 2 || b[4] != 1<<3 {
		c.t.Fatalf("the reply is % x", b)
	}
	return b[5] == 1
}

func (c *criu) send(f *os.File) {
	c.t.Helper()
	if _, _, err := c.c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(f.Fd())), nil); err != nil {
		c.t.Fatal(err)
	}
	f.Close()
}

// dump writes an image as a dump does.
func (c *criu) dump(name, content string) {
	c.t.Helper()
	c.ask(name)
	r, w, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(r)
	if _, err := io.WriteString(w, content); err != nil {
		c.t.Fatal(err)
	}
	w.Close()
}

// kept are images in memory.
type kept struct {
	mu    sync.Mutex
	all   map[string]string
	names []string
	err   error
	done  sync.WaitGroup
}

func (k *kept) Has(name string) bool { _, ok := k.all[name]; return ok }

type capturing struct{ *kept }

func (k capturing) Pipe(name string, end *os.File) error {
	k.mu.Lock()
	k.names = append(k.names, name)
	k.mu.Unlock()
	if k.err != nil {
		end.Close()
		return k.err
	}
	k.done.Go(func() {
		defer end.Close()
		b, err := io.ReadAll(end)
		if err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.all[name] = string(b)
		}
	})
	return nil
}

type giving struct{ *kept }

func (k giving) Pipe(name string, end *os.File) error {
	k.done.Go(func() {
		defer end.Close()
		_, _ = io.WriteString(end, k.all[name])
	})
	return nil
}

// begin runs the streamer for one connection.
func begin(t *testing.T, socket string, to Images) (*criu, *Conn, <-chan error) {
	t.Helper()
	dir := t.TempDir()
	l, err := Listen(dir, socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := connect(t, dir, socket)
	conn, err := l.Accept(to)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- conn.Run() }()
	return c, conn, ended
}

func TestDump(t *testing.T) {
	k := &kept{all: map[string]string{}}
	c, conn, ended := begin(t, CaptureSocket, capturing{k})
	images := map[string]string{"inventory.img": "who", "core-1.img": "", "pages-1.img": strings.Repeat("page", 10000)}
	for name, content := range images {
		c.dump(name, content)
	}
	// What criu has opened is known though it goes on.
	if err := conn.CatchUp(); err != nil {
		t.Fatal(err)
	}
	k.done.Wait()
	if len(k.all) != len(images) {
		t.Errorf("%d images came, want %d", len(k.all), len(images))
	}
	for name, want := range images {
		if k.all[name] != want {
			t.Errorf("%s has %d bytes, want %d", name, len(k.all[name]), len(want))
		}
	}
	c.dump("late.img", "late")
	c.c.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run ends with %v", err)
	}
	if k.done.Wait(); k.all["late.img"] != "late" {
		t.Errorf("the last image has %q", k.all["late.img"])
	}
	if err := conn.CatchUp(); !errors.Is(err, io.EOF) {
		t.Errorf("after its end CatchUp says %v", err)
	}
}

func TestRestore(t *testing.T) {
	k := &kept{all: map[string]string{"inventory.img": "who", "pages-1.img": strings.Repeat("page", 100000)}}
	c, _, ended := begin(t, ServeSocket, giving{k})
	for _, name := range []string{"pages-1.img", "nothing.img", "inventory.img", "pages-1.img"} {
		c.ask(name)
		want, there := k.all[name]
		if c.exists() != there {
			t.Fatalf("%s exists: %t", name, !there)
		}
		if !there {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.send(w)
		if b, err := io.ReadAll(r); err != nil || string(b) != want {
			t.Errorf("%s has %d bytes, %v; want %d", name, len(b), err, len(want))
		}
		r.Close()
	}
	c.c.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run ends with %v", err)
	}
	k.done.Wait()
}

// TestBrokenConversations has what no criu says: it is told apart from an end, and
// criu loses its connection.
func TestBrokenConversations(t *testing.T) {
	for _, c := range []struct{ name, bytes string }{
		{"a request that is too long", "\xff\xff\xff\x7f"},
		{"half a length", "\x05\x00"},
		{"half a request", "\x05\x00\x00\x00\x0a"},
		{"no message", "\x02\x00\x00\x00\x08\x01"},
		{"a name that leads elsewhere", "\x05\x00\x00\x00\x0a\x03../"},
		{"no file", "\x03\x00\x00\x00\x0a\x01xy"},
		{"no byte for the file", "\x03\x00\x00\x00\x0a\x01x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &kept{all: map[string]string{}}
			fake, _, ended := begin(t, CaptureSocket, capturing{k})
			if _, err := io.WriteString(fake.c, c.bytes); err != nil {
				t.Fatal(err)
			}
			if err := fake.c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err == nil {
				t.Error("it is taken for an end")
			}
			if n, err := fake.c.Read(make([]byte, 1)); err == nil {
				t.Errorf("criu reads %d bytes", n)
			}
			if len(k.names) > 0 {
				t.Errorf("images came of it: %q", k.names)
			}
		})
	}
}

func TestPipeIsRefused(t *testing.T) {
	k := &kept{all: map[string]string{}, err: errors.New("no room")}
	c, conn, ended := begin(t, CaptureSocket, capturing{k})
	c.ask("a.img")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c.send(r)
	if err := <-ended; !errors.Is(err, k.err) {
		t.Errorf("Run ends with %v", err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("criu writes on: %v", err)
	}
	if err := conn.CatchUp(); !errors.Is(err, k.err) {
		t.Errorf("CatchUp gives %v", err)
	}
	if !slices.Equal(k.names, []string{"a.img"}) {
		t.Errorf("images that came: %q", k.names)
	}
}

func TestNoConnection(t *testing.T) {
	l, err := Listen(t.TempDir(), CaptureSocket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept(capturing{&kept{}})
		ended <- err
	}()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept gives %v", err)
	}
}

func FuzzName(f *testing.F) {
	f.Add([]byte("\x0a\x01x"))
	f.Add([]byte("\x0a\x0dinventory.img"))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, err := parseName(b)
		if err != nil {
			return
		}
		if name == "" || strings.Contains(name, "/") || name == ".." {
			t.Errorf("the name is %q", name)
		}
		if !bytes.HasSuffix(b, []byte(name)) {
			t.Errorf("%q isn't in % x", name, b)
		}
	})
}
