package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/events/screen"
)

// shell is a session with a terminal that has sh in it.
func shell(name string) object {
	return object{"name": name, "idle": "never", "spec": object{"command": []string{"sh"}, "env": []string{"PS1=$ ", "PATH=/usr/bin:/bin"}, "tty": true}}
}

// told is a message of the server's that isn't output.
type told struct {
	Type, State, Session, Host, Stage string
	Run                               uint64
	Taken                             *int64
	Rows, Cols                        int
	Exit                              *struct{ Code int }
	Problem                           *problem
}

// client is a terminal over a WebSocket.
type client struct {
	*world
	ws *websocket.Conn

	mu      sync.Mutex
	size    int // of the binary messages
	screen  *screen.Screen
	screens int
	output  []byte // the first of it, without screens
	answers []byte // of a terminal that answers what it reads
	at      uint64
	told    []told
	typed   int64
	changed chan struct{}
	ended   error
}

// dial opens a socket; hello are further members of its first message.
func (w *world) dial(address, token, name string, hello object) *client {
	w.Helper()
	ws, _, err := websocket.Dial(w.Context(), "ws://"+address+"/api/v1/sessions/"+name+"/attach", &websocket.DialOptions{
		Subprotocols: []string{"diapause.terminal.v1"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	w.must(err)
	ws.SetReadLimit(64 << 20)
	c := &client{world: w, ws: ws, screen: screen.New(24, 80), changed: make(chan struct{})}
	w.Cleanup(func() { _ = ws.CloseNow() })
	first := object{"type": "attach", "client": "one", "rows": 24, "cols": 80}
	for k, v := range hello {
		first[k] = v
	}
	c.say(first)
	return c
}

func (c *client) say(message object) {
	c.Helper()
	b, err := json.Marshal(message)
	c.must(err)
	c.must(c.ws.Write(c.Context(), websocket.MessageText, b))
}

// types types, from a position that counts all that was typed.
func (c *client) types(at int64, text string) {
	c.Helper()
	c.must(c.ws.Write(c.Context(), websocket.MessageBinary, append(binary.BigEndian.AppendUint64(nil, uint64(at)), text...)))
	c.typed = at + int64(len(text))
}

// reads takes all that comes, until the socket ends.
func (c *client) reads() *client {
	go func() {
		for {
			kind, b, err := c.ws.Read(c.Context())
			c.mu.Lock()
			if err != nil {
				c.ended = err
			} else {
				c.take(kind, b)
			}
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *client) take(kind websocket.MessageType, b []byte) {
	if kind == websocket.MessageText {
		var m told
		if err := json.Unmarshal(b, &m); err != nil {
			c.Errorf("it says %s", b)
		}
		c.told = append(c.told, m)
		if m.Type == "size" {
			c.screen.Resize(m.Rows, m.Cols)
		}
		return
	}
	c.at = binary.BigEndian.Uint64(b[1:])
	c.size += len(b)
	if b[0] == 's' {
		c.screens++
	} else if len(c.output) < 1<<20 {
		c.output = append(c.output, b[9:]...)
	}
	c.answers = append(c.answers, c.screen.Write(b[9:])...)
}

// until waits for something of a client's.
func (c *client) until(what string, is func() bool) {
	c.Helper()
	late := time.After(limit)
	for {
		c.mu.Lock()
		ok, changed, ended := is(), c.changed, c.ended
		c.mu.Unlock()
		if ok {
			return
		}
		if ended != nil {
			c.Fatalf("%s: the socket has ended: %v; %+v\n%s", what, ended, c.told, c.shows())
		}
		select {
		case <-changed:
		case <-late:
			c.Fatalf("never: %s; %+v\n%s", what, c.told, c.shows())
		}
	}
}

// shows is what its screen shows.
func (c *client) shows() string {
	var rows []string
	n, _ := c.screen.Size()
	for y := range n {
		rows = append(rows, c.screen.Text(y))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// sees waits for text on the screen.
func (c *client) sees(text string) {
	c.Helper()
	c.until("it shows "+text, func() bool { return strings.Contains(c.shows(), text) })
}

// hears waits for a message.
func (c *client) hears(what string, is func(told) bool) (m told) {
	c.Helper()
	c.until("it is told "+what, func() bool {
		for _, m = range c.told {
			if is(m) {
				return true
			}
		}
		return false
	})
	return m
}

// TestTerminal uses a terminal: its screen, a reconnect, a suspend while it is attached, and its end.
func TestTerminal(t *testing.T) {
	w := newWorld(t)
	owner := w.token("--role", "owner", "--tenant", "default")
	a := asks{w, w.address, w.token("--role", "operator")}
	a.call("POST", "/api/v1/sessions", 201, shell("work"), nil)
	c := w.dial(w.address, owner, "work", nil).reads()
	attached := c.hears("that it is attached", func(m told) bool { return m.Type == "attached" })
	c.sees("$")
	c.types(0, "printf '\\033[31mred\\033[m\\n'; echo one; N=7\r")
	c.sees("red")
	c.hears("that all was taken", func(m told) bool { return m.Taken != nil && *m.Taken == c.typed })

	// Another client sees the same; this one goes on where it was, and what it types again is typed once.
	other := w.dial(w.address, owner, "work", object{"client": "two"}).reads()
	other.sees("red")
	c.sees("$ ")
	c.mu.Lock()
	at := c.at
	c.mu.Unlock()
	_ = c.ws.CloseNow()
	other.types(0, "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); echo line $i.; done\r")
	other.sees("line 10000.")
	again := w.dial(w.address, owner, "work", object{"at": at, "taken": 0, "session": attached.Session, "run": attached.Run}).reads()
	again.types(0, "printf '\\033[31mred\\033[m\\n'; echo one; N=7\recho twice$N$N\r")
	again.sees("twice77")
	again.mu.Lock()
	lines := strings.Split(string(again.output), "\r\n")
	again.mu.Unlock()
	w.inOrder(lines, 10000)
	if again.screens > 0 || bytes.Contains(again.output, []byte("red")) {
		t.Errorf("after %d it gets %d screens, and %.200q", at, again.screens, again.output)
	}

	// A suspend ends no socket, and what is typed wakes it.
	a.call("POST", "/api/v1/sessions/{session=work}/suspend", 200, nil, nil)
	again.hears("that it is suspended", func(m told) bool { return m.State == "suspended" })
	again.types(again.typed, "echo $((N+1))back\r")
	again.sees("8back")
	other.sees("8back")
	fresh := w.dial(w.address, owner, "work", object{"client": "three"}).reads()
	fresh.sees("8back")
	if !strings.Contains(fresh.shows(), "line 10000.") {
		t.Errorf("what was shown before the suspend is gone:\n%s", fresh.shows())
	}
	again.types(again.typed, "exit 3\r")
	m := again.hears("its end", func(m told) bool { return m.Type == "ended" })
	if m.Exit == nil || m.Exit.Code != 3 {
		t.Errorf("it ends with %+v", m.Exit)
	}
}

// inOrder checks that "line N." is there for each N up to last, once.
func (w *world) inOrder(lines []string, last int) {
	w.Helper()
	next := 1
	for _, l := range lines {
		if strings.HasPrefix(l, "line ") && strings.HasSuffix(l, ".") {
			if l != fmt.Sprintf("line %d.", next) {
				w.Fatalf("after line %d comes %q", next-1, l)
			}
			next++
		}
	}
	if next != last+1 {
		w.Errorf("it gets %d of %d lines", next-1, last)
	}
}

// TestInterrupt: a client that shows nothing of what it gets can interrupt a program that prints without end, and
// has the screen as it is afterwards.
func TestInterrupt(t *testing.T) {
	w := newWorld(t)
	token := w.token("--role", "operator")
	a := asks{w, w.address, token}
	a.call("POST", "/api/v1/sessions", 201, shell("work"), nil)
	stuck := w.dial(w.address, token, "work", object{"flow": true}).reads()
	other := w.dial(w.address, token, "work", object{"client": "two"}).reads()
	other.sees("$")
	stuck.types(0, "yes\r")
	stuck.until("it has as much as it may have unshown", func() bool { return stuck.size >= 256<<10 })
	stuck.types(stuck.typed, "\x03")
	other.sees("^C")
	stuck.types(stuck.typed, "echo st''opped\r")
	other.sees("stopped\n$")
	stuck.shownAll()
	stuck.sees("stopped\n$")
	stuck.mu.Lock()
	defer stuck.mu.Unlock()
	if stuck.size > 8<<20 {
		t.Errorf("%d bytes waited for it", stuck.size)
	}
}

// shownAll has the client say what it has shown, whenever something comes.
func (c *client) shownAll() {
	go func() {
		said := 0
		for {
			c.mu.Lock()
			n, changed, ended := c.size, c.changed, c.ended
			c.mu.Unlock()
			if ended != nil {
				return
			}
			if n > said {
				said = n
				b, _ := json.Marshal(object{"type": "shown", "bytes": n})
				if c.ws.Write(c.Context(), websocket.MessageText, b) != nil {
					return
				}
			}
			<-changed
		}
	}()
}

// TestQuestions: what a program asks of its terminal is answered once, by the session's end, and not once more
// when a client comes later or again.
func TestQuestions(t *testing.T) {
	w := newWorld(t)
	token := w.token("--role", "operator")
	a := asks{w, w.address, token}
	a.call("POST", "/api/v1/sessions", 201, shell("work"), nil)
	one := w.dial(w.address, token, "work", nil).reads()
	two := w.dial(w.address, token, "work", object{"client": "two"}).reads()
	attached := two.hears("that it is attached", func(m told) bool { return m.Type == "attached" })
	two.sees("$")
	two.mu.Lock()
	at := two.at
	two.mu.Unlock()
	const ask = `stty -icanon -echo min 1; printf '\033[c\033]11;?\007\033[>q'; dd bs=1 count=7 2>/dev/null | od -An -c; \
dd bs=1 count=14 2>/dev/null | tr '\033' '^'; stty min 0 time 10; echo; echo "more:$(dd bs=64 count=1 2>/dev/null):"; stty sane
`
	one.types(0, ask)
	one.sees("033   [   ?   1   ;   2   c")
	late := w.dial(w.address, token, "work", object{"client": "three"}).reads()
	again := w.dial(w.address, token, "work", object{"client": "two", "session": attached.Session, "run": attached.Run, "at": at}).reads()
	for _, c := range []*client{one, late, again} {
		c.sees("\n^P>|Diapause^\\\nmore::\n")
	}
	for i, c := range []*client{one, two, late, again} {
		c.mu.Lock()
		if len(c.answers) > 0 || bytes.Contains(c.output, []byte("\x1b[c")) {
			t.Errorf("terminal %d would answer %q", i, c.answers)
		}
		c.mu.Unlock()
	}
}
