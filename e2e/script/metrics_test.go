package script

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

var metricsAt = regexp.MustCompile(`(?m)^metrics: (http://\S+)/metrics`)

// cmdHTTP waits until what a path of the daemon's --metrics answers matches; the answer
// begins with its status.
func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: http PATH PATTERN")
	}
	found := metricsAt.FindAllStringSubmatch(stackOf(ts).Log(), -1)
	if len(found) == 0 {
		ts.Fatalf("the daemon serves no metrics:\n%s", stackOf(ts).Log())
	}
	pattern, url := compile(ts, args[1]), found[len(found)-1][1]+args[0]
	var text string
	var err error
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(step) {
		if text, err = fetch(url); err == nil && pattern.MatchString(text) {
			return
		}
	}
	ts.Fatalf("%s doesn't come to answer %s: %v\n%s", url, args[1], err, text)
}

func fetch(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s", res.StatusCode, data), err
}

// cmdEvent waits until an event of a session and a type matches.
func cmdEvent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: event NAME TYPE PATTERN")
	}
	n, err := schemas.ParseName(args[0])
	ts.Check(err)
	pattern := compile(ts, args[2])
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	all := ""
	for ; ctx.Err() == nil; time.Sleep(step) {
		if all, err = eventsOf(ctx, stackOf(ts).Data, n, args[1]); err == nil && pattern.MatchString(all) {
			return
		}
	}
	ts.Fatalf("no event %s of session %s matches %s: %v\n%s", args[1], n, args[2], err, all)
}

// eventsOf gives the events of a session, one in a line.
func eventsOf(ctx context.Context, data string, n schemas.Name, kind string) (string, error) {
	up, err := datadir.Locate(data)
	if err != nil {
		return "", err
	}
	nc, err := natsconn.Connect(ctx, up.URL, up.ClientCreds, "script", nats.NoReconnect())
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	s, err := js.Stream(ctx, stream.NamesWith("").Events())
	if err != nil {
		return "", err
	}
	var all strings.Builder
	subject := fmt.Sprintf("%s.%s.%s", schemas.SubjectEvent, n.Key(), kind)
	for seq := uint64(0); ; {
		raw, err := s.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return all.String(), nil // that was all
		}
		seq = raw.Sequence
		all.Write(append(raw.Data, '\n'))
	}
}
