package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/criu/hollow"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/tree"
)

// criuErrors gives the lines of criu's log that say what went wrong, without
// their stamps, the first ones first: later errors mostly follow from them.
func criuErrors(images string) []criuError {
	b, err := os.ReadFile(filepath.Join(images, logName))
	if err != nil {
		return nil
	}
	var all []criuError
	for line := range strings.Lines(string(b)) {
		if m := errorLine.FindStringSubmatch(line); m != nil && !noise.MatchString(m[2]) {
			all = append(all, criuError{m[1], strings.TrimSpace(m[2])})
		}
	}
	const enough = 4
	return all[:min(len(all), enough)]
}

// noise is what criu calls an error and goes on, or says at the end of each.
var noise = regexp.MustCompile(`Can't setup RLIMIT_NOFILE|^Dumping FAILED|^Restoring FAILED`)

// passing reports whether criu failed for a reason of the moment: a message on
// its way in a netlink socket; or, in a restore, its processes getting in each
// other's way at a file that several have mapped and that has no name any more.
func passing(images string) bool {
	for _, e := range criuErrors(images) {
		if strings.Contains(e.text, "socket has data to read") ||
			strings.Contains(e.text, "Can't link") && strings.Contains(e.text, ".ghost ->") {
			return true
		}
	}
	return false
}

// cause is a failure of criu that people meet, in words for them.
type cause struct {
	sign string // what criu's log says
	why  string
	fix  string
}

var causes = []cause{
	{"Unsupported proto 262", "a program listens with MPTCP, which can't be captured", "start it with GODEBUG=multipathtcp=0, or plain TCP"},
	{"io_uring", "a program uses io_uring, which can't be captured", "switch io_uring off in it (UV_USE_IO_URING=0 for node)"},
	{"Can't get rlimit", "this machine doesn't let criu read the limits of other users' processes: CAP_SYS_RESOURCE is missing", "run the session as root, or give the worker that capability"},
	{"Cannot assign requested address", "an address that the session is bound to isn't one of this host", "give the host that address, or run the session with --network none"},
	{"Can't bind", "an address that the session listens on is in use on this host", "end what uses it, or run the session with --network none"},
	{"bind() failed", "an address that the session listens on is in use on this host", "end what uses it, or run the session with --network none"},
	{"Address already in use", "an address that the session listens on is in use on this host", "end what uses it, or run the session with --network none"},
	{"ghost file", "a program has a large file open that has no name any more", "close it or make it smaller"},
	{"external socket", "a program is connected to a unix socket outside the session", "end that connection"},
	{"Can't dump nested", "a program made namespaces of its own", "switch its sandbox off"},
	{"No space left", "there is not enough memory for the image", "free memory on this host"},
	{"Cannot allocate memory", "there is not enough memory", "free memory on this host, or raise the session's limit"},
}

// taken says which address of a session another program has, and which one; "" if criu failed
// for another reason, or that can't be seen any more.
func taken(images, log string) string {
	m := cantBind.FindStringSubmatch(log)
	if m == nil {
		return ""
	}
	id, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil {
		return ""
	}
	img, err := os.ReadFile(filepath.Join(images, "files.img"))
	if err != nil {
		return ""
	}
	at, ok := hollow.Bound(img, uint32(id))
	if !ok {
		return ""
	}
	text := fmt.Sprintf("its address %s is in use on this host", at)
	if pid, name, ok := tree.ListenerAt(at); ok {
		text += fmt.Sprintf(" by %s (process %d)", name, pid)
	}
	return text
}

var cantBind = regexp.MustCompile(`Can't bind inet socket \(id (\d+)\): Address already in use`)

// explain puts a failure of criu into words. What its own callback refused is
// returned as it is.
func explain(images string, name schemas.Name, verb string, err error) error {
	var f *rpc.Failure
	if errors.As(err, &f) && f.Caller != nil {
		return f.Caller
	}
	found := criuErrors(images)
	texts := make([]string, len(found))
	for i, e := range found {
		texts[i] = e.text
	}
	text := fmt.Sprintf("session %s can't be %s", name, verb)
	all := strings.Join(texts, "; ")
	for _, c := range causes {
		if strings.Contains(all, c.sign) {
			return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("%s: %s (criu: %s)", text, cmp.Or(taken(images, all), c.why), all), Hint: c.fix}
		}
	}
	if all == "" {
		return fmt.Errorf("%s: %w", text, err)
	}
	text += ": criu says: " + all
	if passing(images) {
		return fmt.Errorf("%s: %w", text, ErrPassing)
	}
	return &driver.Error{Kind: driver.Transient, Text: text}
}
