package activityport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/diapause/diapause/schemas"
)

// The bounds of a message, in bytes.
const (
	LongestLine    = 4 << 10  // of a client: what servers take
	longestAnswer  = 64 << 10 // of a server: INFO lists much
	LargestPayload = schemas.MaxUncredentialed
)

// LeastWords has the line of a message: its subject and size. One with a header has the size of that, too.
const LeastWords = 2

// relay is one connection of a program with a server.
type relay struct {
	client, server net.Conn
	own            []string // what subjects of the session begin with
	wait           func(size int) error

	mu sync.Mutex // held while something is written to the client
}

// newRelay has the name that the session has in subjects.
func newRelay(name schemas.Name, client, server net.Conn) *relay {
	return &relay{client: client, server: server, own: []string{schemas.SubjectActivity + "." + name.Key() + "."}}
}

// run returns when the connection has ended, on either side. wait returns when so many bytes may
// be sent.
func (r *relay) run(wait func(size int) error) {
	r.wait = wait
	var answers sync.WaitGroup
	answers.Go(func() {
		defer r.client.Close()
		_ = r.fromServer() // a connection ends like this
	})
	err := r.fromClient()
	var broken ProtocolError
	if errors.As(err, &broken) {
		_ = r.tell(string(broken)) // if it still listens
	}
	r.server.Close()
	answers.Wait()
}

// ProtocolError ends a connection: what follows can't be understood.
type ProtocolError string

func (e ProtocolError) Error() string { return string(e) }

// tell sends the client an error of the protocol.
func (r *relay) tell(text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := fmt.Fprintf(r.client, "-ERR '%s'\r\n", text)
	return err
}

func (r *relay) fromClient() error {
	in := bufio.NewReaderSize(r.client, LongestLine)
	for {
		line, err := ReadLine(in)
		if err != nil {
			return err
		}
		op, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(op) {
		case "":
		case "PING", "PONG", "UNSUB":
			_, err = fmt.Fprintf(r.server, "%s\r\n", line)
		case "CONNECT":
			err = r.connect(rest)
		case "SUB":
			err = r.subscribe(line, rest)
		case "PUB":
			err = r.publish(in, op, rest, LeastWords)
		case "HPUB":
			err = r.publish(in, op, rest, LeastWords+1)
		default:
			err = ProtocolError("Unknown Protocol Operation")
		}
		if err != nil {
			return err
		}
	}
}

// ReadLine reads up to the end of a line. One that is longer than the reader's buffer is an error.
func ReadLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", ProtocolError("Maximum Control Line Exceeded")
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(line)), nil
}

// passed are the members of CONNECT that a server gets: none of them says who the client is.
var passed = []string{"verbose", "pedantic", "echo", "headers", "no_responders", "protocol", "lang", "version", "name"}

func (r *relay) connect(text string) error {
	var all, out map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &all) != nil {
		return ProtocolError("Parser Error")
	}
	out = map[string]json.RawMessage{}
	for _, name := range passed {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.server, "CONNECT %s\r\n", data)
	return err
}

// subscribe passes on what a client listens to for answers.
func (r *relay) subscribe(line, rest string) error {
	subject, _, _ := strings.Cut(rest, " ")
	inbox, ok := strings.CutPrefix(subject, "_INBOX.")
	first, _, _ := strings.Cut(inbox, ".")
	if !ok || first == "" || strings.ContainsAny(first, "*>") {
		return r.tell(fmt.Sprintf("Permissions Violation for Subscription to %q", subject))
	}
	_, err := fmt.Fprintf(r.server, "%s\r\n", line)
	return err
}

// ReadMessage reads a message behind its operation: the words of its line, which are the subject, perhaps where to answer, and
// sizes, of which the last is all that follows; and that, with the end of its line.
func ReadMessage(in *bufio.Reader, rest string, least int) (words []string, payload []byte, err error) {
	words = strings.Fields(rest)
	if len(words) < least || len(words) > least+1 {
		return nil, nil, ProtocolError("Parser Error")
	}
	size, err := strconv.ParseUint(words[len(words)-1], 10, 32)
	if err != nil {
		return nil, nil, ProtocolError("Parser Error")
	}
	if size > LargestPayload {
		return nil, nil, ProtocolError("Maximum Payload Violation")
	}
	payload = make([]byte, size+uint64(len("\r\n")))
	if _, err := io.ReadFull(in, payload); err != nil {
		return nil, nil, err
	}
	if !bytes.HasSuffix(payload, []byte("\r\n")) {
		return nil, nil, ProtocolError("Parser Error")
	}
	return words, payload, nil
}

// publish passes a message on if it is the session's activity.
func (r *relay) publish(in *bufio.Reader, op, rest string, least int) error {
	words, payload, err := ReadMessage(in, rest, least)
	if err != nil {
		return err
	}
	if err := r.wait(len(op) + len(rest) + len(payload)); err != nil {
		return err
	}
	if !r.mayPublish(words[0]) {
		return r.tell(fmt.Sprintf("Permissions Violation for Publish to %q", words[0]))
	}
	// Its words are marked as its own: it can't end a lease that others have placed.
	words[0] = schemas.Marked(words[0], schemas.FromInside)
	_, err = r.server.Write(append([]byte(op+" "+strings.Join(words, " ")+"\r\n"), payload...))
	return err
}

func (r *relay) mayPublish(subject string) bool {
	for _, own := range r.own {
		if strings.HasPrefix(subject, own) {
			return true
		}
	}
	return false
}

// fromServer passes answers on, without what leads a client to other servers.
func (r *relay) fromServer() error {
	in := bufio.NewReaderSize(r.server, longestAnswer)
	for {
		line, err := ReadLine(in)
		if err != nil {
			return err
		}
		op, rest, _ := strings.Cut(line, " ")
		out := []byte(line + "\r\n")
		switch strings.ToUpper(op) {
		case "INFO":
			out, err = info(rest)
		case "MSG", "HMSG":
			words := strings.Fields(rest)
			var size uint64
			if len(words) > 0 {
				size, err = strconv.ParseUint(words[len(words)-1], 10, 32)
			}
			if err == nil {
				payload := make([]byte, size+uint64(len("\r\n")))
				_, err = io.ReadFull(in, payload)
				out = append(out, payload...)
			}
		}
		if err == nil {
			r.mu.Lock()
			_, err = r.client.Write(out)
			r.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
}

// kept are the members of INFO that a client gets.
var kept = []string{"server_id", "server_name", "version", "proto", "go", "headers", "max_payload", "jetstream", "client_id", "lame_duck_mode", "ldm"}

func info(text string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read what the server is: %w", err)
	}
	out := map[string]json.RawMessage{}
	for _, name := range kept {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "INFO %s\r\n", data), nil
}
