package smuggle

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// limit bounds each case; a passing one never comes to it.
const limit = time.Minute

// Way is a server that is tested, and how a session is reached through it.
type Way struct {
	Address string // of the server
	Host    string // of a port of a session
	Path    string // of the same port in the path form, as /s/TENANT/NAME/PORT
	Token   string // header lines that prove who asks, each with its end; none of them reaches the session
	Backend *Backend
}

// Run sends all cases.
func Run(t *testing.T, w Way) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { w.try(t, c) })
	}
	t.Run("HTTP/2", func(t *testing.T) { w.streams(t) })
}

// try sends one case on a connection of its own.
func (w Way) try(t *testing.T, c trial) {
	w.Backend.take()
	answer := w.send(w.filled(c.raw))
	got, want := w.Backend.take(), strings.TrimSpace(w.filled(c.reaches))
	if c.want == broken {
		if strings.Contains(got, "\r\n0\r\n") || strings.Contains(got, "smuggled") || strings.Contains(answer, "HTTP/1.1 200") || strings.Count(answer, "HTTP/1.1 ") > 1 {
			t.Errorf("the session gets\n%q\nthe answer is %.200q", got, answer)
		}
		return
	}
	if strings.TrimSpace(got) != want {
		t.Errorf("the session gets\n%q, want\n%q\nthe answer is %.200q", got, want, answer)
	}
	if _, status, _ := strings.Cut(answer, " "); !strings.HasPrefix(status, c.want) {
		t.Errorf("the answer is %.200q, want %s", answer, c.want)
	}
	if c.reaches == "" && strings.Contains(answer, " 200 OK") {
		t.Errorf("the answer is %.400q", answer)
	}
}

// filled has the words of a case replaced.
func (w Way) filled(text string) string {
	return strings.NewReplacer("{HOST}", w.Host, "{PATH}", w.Path, "{TOKEN}", w.Token).Replace(text)
}

// send gives all that comes until the other end closes.
func (w Way) send(text string) (answer string) {
	c, err := net.Dial("tcp", w.Address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err.Error()
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		text, more := strings.CutSuffix(text, hundred)
		_, err := io.WriteString(c, text)
		for line := "X: " + strings.Repeat("a", 1<<20) + "\r\n"; more && err == nil; { // until the other end has had enough
			_, err = io.WriteString(c, line)
		}
	}()
	data, _ := io.ReadAll(c) // it may be reset, when it has answered
	c.Close()
	<-wrote
	return string(data)
}
