package script

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdPublish publishes as any program on the machine could: by hand, over TCP,
// without a library and without credentials.
func cmdPublish(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: [!] natspub SUBJECT [TEXT]")
	}
	text := ""
	if len(args) == 2 {
		text = args[1]
	}
	err := publish(strings.TrimPrefix(stackOf(ts).URL, "nats://"), args[0], text)
	if neg && err == nil {
		ts.Fatalf("the server took it")
	}
	if neg {
		ts.Logf("%v", err)
		return
	}
	ts.Check(err)
}

// publish gives the server's refusal as its error.
func publish(address, subject, text string) error {
	c, err := net.DialTimeout("tcp", address, deadline)
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPUB %s %d\r\n%s\r\nPING\r\n", subject, len(text), text)
	if err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	var refused error
	for in := bufio.NewScanner(c); in.Scan(); {
		switch line := in.Text(); {
		case strings.HasPrefix(line, "-ERR"):
			refused = errors.Join(refused, errors.New(line))
		case line == "PONG":
			return refused
		}
	}
	return errors.Join(refused, errors.New("the server closed the connection"))
}
