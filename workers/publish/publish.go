package publish

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// Port is one published port.
type Port struct {
	Host  netip.AddrPort
	Inner uint16 // in the session
}

func (p Port) String() string { return fmt.Sprintf("%s:%d", p.Host, p.Inner) }

// usual is where a port is published that is said without an address.
var usual = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// most is how many ports a session may publish.
const most = 64

// Parse reads ports, each as [ADDR:]HOST:PORT.
func Parse(words []string) ([]Port, error) {
	if len(words) > most {
		return nil, fmt.Errorf("read the published ports: %d are more than %d", len(words), most)
	}
	var all []Port
	for _, word := range words {
		p, err := parse(word)
		if err != nil {
			return nil, fmt.Errorf("read %q: want [ADDR:]HOST:PORT, e.g. 8080:80: %w", word, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func parse(word string) (p Port, err error) {
	rest, inner, found := cutLast(word)
	if !found {
		return p, errors.New("there is one port")
	}
	if p.Inner, err = port(inner); err != nil {
		return p, err
	}
	address, host, found := cutLast(rest)
	at := usual
	if !found {
		host = rest
	} else if at, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")); err != nil {
		return p, err
	}
	n, err := port(host)
	p.Host = netip.AddrPortFrom(at, n)
	return p, err
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndex(text, ":")
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func port(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is no port", text)
	}
	return uint16(n), nil
}

// Server has the ports of one session.
type Server struct {
	ports     []Port
	listeners []*net.TCPListener
	room      chan struct{} // has room for the connections that may come
	serving
}

// Listen takes the ports of this host, or none.
func Listen(words []string) (*Server, error) {
	ports, err := Parse(words)
	if err != nil {
		return nil, &driver.Error{Kind: driver.Refused, Text: err.Error()}
	}
	s := &Server{ports: ports, room: make(chan struct{}, connectionsAtOnce)}
	for _, p := range ports {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(p.Host))
		if err != nil {
			s.Close()
			return nil, refuse(p, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

func refuse(p Port, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("port %s of the host is in use", p.Host),
			Hint: fmt.Sprintf("`ss -ltnp sport = :%d` names who has it; `diapause fork --publish` gives a fork other ports, or none", p.Host.Port())}
	}
	return &driver.Error{Kind: driver.Refused, Err: err, Text: fmt.Sprintf("port %s can't be published", p.Host)}
}
