// Command counter is a Go HTTP server that counts requests, and a client that
// asks it without pause over one connection:
//
//	counter serve FILE      listen on loopback, write the address to FILE
//	counter ask FILE OUT    ask the server of FILE, write what it tells to OUT
//
// Both are restored in the middle of it by the compatibility run.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: counter serve FILE | ask FILE OUT")
	}
	var err error
	switch {
	case os.Args[1] == "serve":
		err = serve(os.Args[2])
	case os.Args[1] == "ask" && len(os.Args) == 4:
		err = ask(os.Args[2], os.Args[3])
	}
	if err != nil {
		log.Fatal(err)
	}
}

type answer struct{ Count, Timers int64 }

func serve(file string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := replace(file, []byte(l.Addr().String())); err != nil {
		return err
	}
	var count, timers atomic.Int64
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			timers.Add(1)
		}
	}()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(answer{count.Add(1), timers.Load()}) // the client sees it
	}))
}

// told is what the client has seen so far.
type told struct {
	Asked       int64  `json:"asked"`
	Server      int64  `json:"server"`
	Connections int64  `json:"connections"`
	Failed      int64  `json:"failed"`
	Timers      int64  `json:"timers"`
	Error       string `json:"error"`
}

func ask(file, out string) error {
	var address []byte
	for {
		var err error
		if address, err = os.ReadFile(file); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var t told
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		atomic.AddInt64(&t.Connections, 1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	for {
		a, err := once(client, "http://"+string(address))
		if err != nil {
			t.Failed, t.Error = t.Failed+1, err.Error()
		} else {
			t.Asked, t.Server, t.Timers = t.Asked+1, a.Count, a.Timers
		}
		b, err := json.Marshal(&t)
		if err != nil {
			return err
		}
		if err := replace(out, b); err != nil {
			return err
		}
	}
}

func once(client *http.Client, url string) (answer, error) {
	var a answer
	r, err := client.Get(url)
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		return a, err
	}
	// Read to its end, so that the connection is used again.
	_, err = io.Copy(io.Discard, r.Body)
	return a, err
}

// replace writes a file that is seen whole or not at all.
func replace(file string, b []byte) error {
	if err := os.WriteFile(file+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
