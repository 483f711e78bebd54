// Command hold keeps memory of a known and realistic content, and tells its
// digest:
//
//	hold keep MB SOCKET     fill MB megabytes and answer at SOCKET
//	hold ask SOCKET VERB    ping, sum (the digest), touch (change a sixteenth), "touch N" (an Nth)
//	hold changed MB N TIMES print the pages that the touch of that number has changed
//
// Half of the pages are text of the kind that programs hold, a quarter numbers
// that resemble pointers, a quarter random. No page is like another.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	page      = 4096
	sixteenth = 16
)

func main() {
	err := errors.New("usage: hold keep MB SOCKET|ask SOCKET VERB|changed MB N TIMES")
	switch {
	case len(os.Args) == 4 && os.Args[1] == "keep":
		err = keep(os.Args[2], os.Args[3])
	case len(os.Args) == 4 && os.Args[1] == "ask":
		err = ask(os.Args[2], os.Args[3])
	case len(os.Args) == 5 && os.Args[1] == "changed":
		err = changed(os.Args[2:])
	}
	if err != nil {
		log.Fatal(err)
	}
}

func keep(megabytes, socket string) error {
	mb, err := strconv.Atoi(megabytes)
	if err != nil {
		return fmt.Errorf("read the size: %w", err)
	}
	memory, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map memory: %w", err)
	}
	for i := 0; i < len(memory)/page; i++ {
		fill(memory[i*page:(i+1)*page], i, 0)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for touched := uint64(1); ; {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		b, _ := io.ReadAll(io.LimitReader(conn, 32)) // the client ends its side
		verb, of, _ := strings.Cut(string(b), " ")
		switch verb {
		case "sum":
			fmt.Fprintf(conn, "%x\n", sha256.Sum256(memory))
		case "touch":
			step := sixteenth
			if n, err := strconv.Atoi(of); err == nil && n > 0 {
				step = n
			}
			for i := 0; i < len(memory)/page; i += step {
				fill(memory[i*page:(i+1)*page], i, touched)
			}
			touched++
			fmt.Fprintln(conn, "done")
		default:
			fmt.Fprintln(conn, "here")
		}
		conn.Close()
	}
}

// changed prints pages as a touch has made them.
func changed(args []string) error {
	var n [3]int
	for i, a := range args {
		var err error
		if n[i], err = strconv.Atoi(a); err != nil || n[i] < 1 {
			return fmt.Errorf("changed: %q is no number", a)
		}
	}
	b := make([]byte, page)
	for i := 0; i < n[0]<<20/page; i += n[1] {
		fill(b, i, uint64(n[2]))
		if _, err := os.Stdout.Write(b); err != nil {
			return err
		}
	}
	return nil
}

var words = []string{"session", "request", "value", "/usr/lib/python3/dist-packages/", "self.", "None", "\"id\": ", "error: ", "true", "2026-", "user-", "GET /api/v1/"}

// fill writes one page; times makes it another one.
func fill(b []byte, i int, times uint64) {
	r := rand.New(rand.NewPCG(uint64(i), times))
	switch i % 4 {
	case 0, 1:
		for at := 0; at < len(b); {
			at += copy(b[at:], words[r.IntN(len(words))])
			at += copy(b[at:], strconv.Itoa(r.IntN(1e6)))
		}
	case 2:
		for at := 0; at < len(b); at += 8 {
			binary.LittleEndian.PutUint64(b[at:], 0x7f3a_0000_0000+uint64(r.IntN(1<<20))*16)
		}
	default:
		for at := 0; at < len(b); at += 8 {
			binary.LittleEndian.PutUint64(b[at:], r.Uint64())
		}
	}
}

func ask(socket, verb string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, verb); err != nil {
		return err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, conn)
	return err
}
