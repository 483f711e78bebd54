package preflight

import (
	"fmt"
	"net/netip"

	"github.com/diapause/diapause/workers/tree"
)

// Facts are all that Judge judges by.
type Facts struct {
	Processes   []Process
	Spaces      map[string]string     // kind of namespace → the session's ("net" → "net:[4026531840]")
	Mounts      map[int]bool          // ids of the mounts that the tree sees; nil if they can't be known
	Unix        map[uint64]UnixSocket // of the session's network, by inode
	SystemV     SystemV
	Connections []tree.Connection
	Watches     []tree.Watch
	Shared      []Shared
	Keys        map[uint64]int         // user → keys of that user, where a process of it may use them
	Terminals   uint64                 // the file system of the session's /dev/pts
	GhostLimit  int64                  // bytes; 0: none
	Init        int                    // the session's first process, as this process sees it
	Lacks       []string               // patches that the CRIU at hand hasn't
	External    func(link string) bool // never nil
}

// Process is one process of the tree.
type Process struct {
	PID      int    // as this process sees it
	Inside   int    // as the session sees it
	Comm     string // its name
	State    byte   // as /proc has it: R, S, D, T, t, Z
	Threads  int
	Parent   int    // as this process sees it
	Session  int    // its leader as the session sees it
	Terminal bool   // it has a controlling terminal
	CPUs     string // that it may run on
	Tracer   string // who traces it, "gdb (pid 12)"; empty if it isn't traced
	User     uint64
	Confined bool   // it has no_new_privs, as what confines itself has
	Free     bool   // no filter stops it from using keys
	Admin    bool   // it has CAP_SYS_ADMIN
	Nice     int    // of a session's leader: that of the session's group of the scheduler
	Policy   string // of memory, if it isn't the default one and this host has several nodes
	Apart    []Thread
	Clocks   int               // POSIX timers of the wall clock
	Full     bool              // its address space is at its limit
	Crowded  bool              // it has as many open files as it may
	Limits   bool              // its resource limits can be read, which CRIU has to
	Root     string            // its root directory in its mount namespace, "/" unless it called chroot
	Spaces   map[string]string // kind of namespace → its own
	Files    []File
	Mappings []Mapping
}

// Thread is one that has something apart from its process.
type Thread struct {
	TID       int // as this process sees it
	Inside    int // as the session sees it
	Name      string
	Files     bool   // it has a table of open files of its own
	Places    bool   // it has a working directory, a root and a umask of its own
	Elsewhere bool   // and one of those isn't its process's
	Space     string // the kind of a namespace that its process isn't in
}

// Shared is what two processes share by clone.
type Shared struct {
	Kind int // of kcmp
	A, B int // as this process sees them
}

// File is one open file of a process.
type File struct {
	Num     int
	Link    string
	Type    uint32 // the bits of a mode that say what it is: S_IFREG and so on
	Major   uint32 // of a device
	Minor   uint32
	Names   uint64 // how many it has; 0: it is unlinked
	Bytes   int64  // that it takes up
	Mount   int    // the id of the mount it was opened on
	Flags   int    // those of open
	Passing int    // of a unix socket: descriptors that wait in its queue
	Hangup  bool   // of a pipe or terminal: the other end is closed
	Unread  int    // of an inotify: bytes of events
	Watched bool   // of a directory: by fcntl(F_NOTIFY)
	Timer   Timer  // of a timerfd
	Counts  bool   // of an eventfd: it is a semaphore
	Polls   bool   // of an epoll: it polls devices itself, by EPIOCSPARAMS
	Line    int    // of a terminal: its line discipline
	TTY     int    // of a master of a terminal: the terminal's number; -1 otherwise
	Device  uint64 // the file system it is on; terminals of two of them may have one number
	Target  int    // of a pidfd: the process as this process sees it; -1: ended
	Parent  int    // of a pidfd: who started that process; a zombie of the tree is known by it
	Huge    bool   // it is made of huge pages
	Socket  *Socket
}

// pair names what the file is one end of.
func (f *File) pair() string { return fmt.Sprint(f.Link, " ", f.Device, " ", f.Target) }

// Socket is what an open file that is a socket says about itself.
type Socket struct {
	Inode    uint64
	Domain   int
	Type     int
	Protocol int
	Unread   bool           // there is something to read
	Corked   bool           // a datagram is held back
	Failed   bool           // an error waits to be asked for
	Urgent   bool           // of TCP: a byte of urgent data waits
	Layer    string         // of TCP: a protocol in the kernel above it, "tls"
	Unsent   int            // of TCP: bytes that aren't sent yet
	Local    netip.AddrPort // of TCP
	PassCred bool           // of a unix socket: its messages say who sent them
	Empty    bool           // of a unix socket: an empty packet is the next to be read
	Moved    string         // of a unix socket: the path of its file, if that isn't the one it was bound to
	PeerPID  int            // of a unix socket: who made the other end, as this process sees it; 0: not known
}

// Timer is what a timerfd says about itself.
type Timer struct {
	Ticks    uint64 // expiries that aren't read
	Running  bool   // it has time left
	Periodic bool
	Absolute bool
}

// UnixSocket is a line of the kernel's list of them.
type UnixSocket struct {
	Inode    uint64
	Type     int
	State    int
	Peer     uint64   // inode; 0: none, or one that isn't accepted yet
	Unsent   int      // bytes that the other end hasn't read
	Name     string   // a path, or with a leading @ an abstract name
	Shutdown int      // 3: both ways
	Waiting  []uint64 // inodes of those that a listener hasn't accepted; 0: closed since
}

// Mapping is one mapped thing of a process that isn't its own memory.
type Mapping struct {
	Start uint64
	Path  string
	Type  uint32 // S_IFREG and so on; 0 if it couldn't be looked at
	Major uint32 // of a device
	Minor uint32
	Names uint64
	Bytes int64
	Huge  bool // it is made of huge pages
}

// SystemV is what the session has of System V IPC, and of what lives beside it.
type SystemV struct {
	Removed int      // shared memory segments that were removed and are still attached
	Sets    int      // semaphore sets
	Queues  []string // names of POSIX message queues, which live beside them
}
