package events_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os/exec"
	"strings"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// A web terminal says that a person types.
func Example() {
	client, err := events.Connect(events.Options{By: "webterm"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Session("acme/web-42")
	if err != nil {
		log.Fatal(err)
	}
	onKey := func(_ byte) { session.Input() } // as often as keys are pressed
	onKey('x')
}

// An agent's turn: the session stays awake until it is over, and if the program dies,
// for at most a minute more.
func ExampleSession_Busy() {
	client, err := events.Connect(events.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Session("agent-7")
	if err != nil {
		log.Fatal(err)
	}
	lease, err := session.Busy(context.Background(), "turn", 0, events.Because("answers a question"))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Close()
	if err := exec.Command("true").Run(); err != nil {
		log.Print(err)
	}
}

// A reverse proxy that knows the session by the host name; health checks and the
// console only look.
func ExampleClient_Middleware() {
	client, err := events.Connect(events.Options{By: "proxy"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	which := func(r *http.Request) events.Use {
		if r.URL.Path == "/healthz" {
			return events.Use{}
		}
		id, _, _ := strings.Cut(r.Host, ".")
		return events.Use{Session: "acme/" + id, Reconnect: r.Header.Get("Last-Event-ID") != ""}
	}
	server := http.Server{Handler: client.Middleware(which, http.NotFoundHandler())}
	_ = server.Close()
}

// Everything that happens to a tenant's sessions, with credentials that allow it.
func ExampleClient_Watch() {
	client, err := events.Connect(events.Options{URL: "nats://nats.example.com:4222", Creds: "reader.nk"})
	if err != nil {
		log.Print(err) // here, since there is no such file
		return
	}
	defer client.Close()
	err = client.Watch(context.Background(), "acme/*", func(r schemas.SessionRecord) {
		fmt.Println(r.Session, r.State, r.Transition.Reason)
	})
	if err != nil {
		log.Fatal(err)
	}
}
