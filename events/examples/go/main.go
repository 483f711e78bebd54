// Command go is an HTTP server that keeps the sessions awake that its visitors use:
// a request to /s/ID wakes session ID and keeps it awake for as long as the
// request lives, and a POST to it has it count as busy until its work is done.
//
//	NATS_URL=nats://127.0.0.1:4222 go run ./events/examples/go 127.0.0.1:8080
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/diapause/diapause/events"
)

const tenant = "default/"

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go ADDRESS")
	}
	client, err := events.Connect(events.Options{
		URL: os.Getenv("NATS_URL"), By: "example", OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /s/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "you are in", r.PathValue("id")) })
	mux.HandleFunc("POST /s/{id}", func(w http.ResponseWriter, r *http.Request) { work(client, w, r) })
	log.Fatal(http.ListenAndServe(os.Args[1], client.Middleware(which, mux)))
}

// which says what a request means: a health check means nothing.
func which(r *http.Request) events.Use {
	var id string
	if _, err := fmt.Sscanf(r.URL.Path, "/s/%s", &id); err != nil {
		return events.Use{}
	}
	return events.Use{Session: tenant + id}
}

// work does something long for a session: it reads what is sent. The lease renews
// itself, and ends with the request even if the work is never finished.
func work(client *events.Client, w http.ResponseWriter, r *http.Request) {
	session, err := client.Session(tenant + r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lease, err := session.Busy(r.Context(), "work", 3*time.Second, events.Because("works for a visitor"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer lease.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, n, "bytes")
}
