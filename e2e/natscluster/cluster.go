package natscluster

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 90 * time.Second

// Cluster is one server, or several that form a cluster.
type Cluster struct {
	t     testing.TB
	dir   string
	nodes []*node
	links [][]*Link // routes: [from][to]
	doors []*Door
	mu    sync.Mutex // of what may be asked for by several goroutines: doors and nodes' servers
}

type node struct {
	options   server.Options
	server    *server.Server
	running   bool
	elsewhere string // address of a server that others run
}

// Around stands around a server that someone else runs, at that address: it has doors,
// and no say in the server's life.
func Around(t testing.TB, address string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, nodes: []*node{{elsewhere: address, running: true}}}
	t.Cleanup(c.close)
	return c
}

// Start runs that many servers, each with a directory of its own, and waits until
// JetStream works. They end with the test.
func Start(t testing.TB, size int) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "natscluster-")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, dir: dir}
	t.Cleanup(c.close)
	for i := range size {
		c.nodes = append(c.nodes, &node{options: server.Options{
			ServerName: fmt.Sprintf("n%d", i), JetStream: true, StoreDir: filepath.Join(dir, strconv.Itoa(i)), SyncAlways: true,
			Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		}})
	}
	if size > 1 {
		c.route()
	}
	for i := range c.nodes {
		if err := c.StartNode(i); err != nil {
			t.Fatal(err)
		}
	}
	c.AwaitReady()
	return c
}

// route gives every node a way to every other, through a link of its own. What
// they gossip about each other is an address where no one answers, so that there
// is no other way.
func (c *Cluster) route() {
	for i, n := range c.nodes {
		n.options.Cluster = server.ClusterOpts{
			Name: "robust", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true, Advertise: "127.0.0.1:1",
		}
		var row []*Link
		for j := range c.nodes {
			k := c.link()
			row = append(row, k)
			if i != j {
				n.options.Routes = append(n.options.Routes, &url.URL{Scheme: "nats-route", Host: k.Addr()})
			}
		}
		c.links = append(c.links, row)
	}
}

func (c *Cluster) link() *Link {
	k, err := newLink()
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// Size is how many nodes there are.
func (c *Cluster) Size() int { return len(c.nodes) }

// Server gives a node's server.
func (c *Cluster) Server(i int) *server.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].server
}

// StartNode runs a node that isn't running, at the address where it was before.
func (c *Cluster) StartNode(i int) error {
	n := c.nodes[i]
	o := n.options
	s, err := server.NewServer(&o)
	if err != nil {
		return fmt.Errorf("make NATS server %d: %w", i, err)
	}
	s.Start()
	c.mu.Lock()
	defer c.mu.Unlock()
	n.server, n.running = s, true
	// A node of a cluster is ready only when it has heard of the others.
	for deadline := time.Now().Add(limit); s.Addr() == nil || len(c.nodes) > 1 && s.ClusterAddr() == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("NATS server %d doesn't listen", i)
		}
	}
	n.options.Port = port(s.Addr())
	if len(c.nodes) > 1 {
		n.options.Cluster.Port = s.ClusterAddr().Port
		for j := range c.nodes {
			c.links[j][i].aim(s.ClusterAddr().String())
		}
	}
	for _, d := range c.doors {
		d.aim(i, s.Addr().String())
	}
	return nil
}

func port(a net.Addr) int {
	_, p, _ := strings.Cut(a.String(), ":")
	n, _ := strconv.Atoi(p)
	return n
}

// StopNode ends a node, which keeps its files.
func (c *Cluster) StopNode(i int) {
	c.mu.Lock()
	s, running := c.nodes[i].server, c.nodes[i].running
	c.nodes[i].running = false
	c.mu.Unlock()
	if running {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Running reports whether a node hasn't been stopped.
func (c *Cluster) Running(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].running
}

// Routes gives the links of one node to and from the others.
func (c *Cluster) Routes(i int) []*Link {
	var out []*Link
	for j := range c.nodes {
		if j != i {
			out = append(out, c.links[i][j], c.links[j][i])
		}
	}
	return out
}

// Between gives the links of two nodes.
func (c *Cluster) Between(i, j int) []*Link { return []*Link{c.links[i][j], c.links[j][i]} }

// AwaitReady waits until every running node takes part in JetStream.
func (c *Cluster) AwaitReady() {
	c.t.Helper()
	if c.nodes[0].elsewhere != "" {
		return // its clients see
	}
	for deadline := time.Now().Add(limit); !c.ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("JetStream of %d NATS servers is not ready after %s", len(c.nodes), limit)
		}
	}
}

func (c *Cluster) ready() bool {
	leader := len(c.nodes) == 1
	for i := range c.nodes {
		s := c.Server(i)
		if !c.Running(i) {
			continue
		}
		if !s.ReadyForConnections(time.Millisecond) || len(c.nodes) > 1 && !s.JetStreamIsCurrent() {
			return false
		}
		leader = leader || s.JetStreamIsLeader()
	}
	return leader
}

// AwaitCurrent waits until all nodes run and each has all of the streams that are
// named.
func (c *Cluster) AwaitCurrent(streams ...string) {
	c.t.Helper()
	if c.AwaitReady(); c.nodes[0].elsewhere != "" {
		return
	}
	for deadline := time.Now().Add(limit); !c.current(streams); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("the replicas of %v are not current after %s", streams, limit)
		}
	}
}

func (c *Cluster) current(streams []string) bool {
	for _, name := range streams {
		if c.Leader(name) < 0 {
			return false
		}
		for i := range c.nodes {
			if len(c.nodes) > 1 && !c.Server(i).JetStreamIsStreamCurrent(server.DEFAULT_GLOBAL_ACCOUNT, name) {
				return false
			}
		}
	}
	return true
}

// Leader gives the node that leads a stream, by its own opinion: of two the one
// with the lower number, -1 if there is none.
func (c *Cluster) Leader(stream string) int {
	if len(c.nodes) == 1 {
		return 0
	}
	for i := range c.nodes {
		if c.Running(i) && c.Server(i).JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}

// StepDown has the leader of a stream give up its office.
func (c *Cluster) StepDown(stream string) error {
	i := c.Leader(stream)
	if i < 0 || len(c.nodes) == 1 {
		return nil
	}
	return c.Server(i).JetStreamStepdownStream(server.DEFAULT_GLOBAL_ACCOUNT, stream)
}

// HealAll takes every fault of every link back.
func (c *Cluster) HealAll() {
	for _, row := range c.links {
		for _, k := range row {
			k.Heal()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.doors {
		d.Heal()
	}
}

func (c *Cluster) close() {
	for i := range c.nodes {
		if c.nodes[i].server != nil {
			c.StopNode(i)
		}
	}
	for _, row := range c.links {
		for _, k := range row {
			k.close()
		}
	}
	for _, d := range c.doors {
		for _, k := range d.links {
			k.close()
		}
	}
	// A server that was shut down may still write to a file or two.
	for deadline := time.Now().Add(limit); os.RemoveAll(c.dir) != nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// Door is the way of one client to every node.
type Door struct {
	links []*Link
	only  []int // the nodes it leads to; all if empty
}

func (d *Door) aim(node int, at string) {
	if len(d.only) == 0 || slices.Contains(d.only, node) {
		d.links[node].aim(at)
	}
}

// Door makes the way of one more client; with nodes given, to those alone.
func (c *Cluster) Door(nodes ...int) *Door {
	d := &Door{only: nodes}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.nodes {
		k := c.link()
		d.links = append(d.links, k)
		if n.server != nil {
			d.aim(i, n.server.Addr().String())
		}
		if n.elsewhere != "" {
			d.aim(i, n.elsewhere)
		}
	}
	c.doors = append(c.doors, d)
	return d
}

// URLs is where a client comes to the door.
func (d *Door) URLs() string {
	var urls []string
	for _, k := range d.links {
		urls = append(urls, "nats://"+k.Addr())
	}
	return strings.Join(urls, ",")
}

// Connect connects a client by this door. It comes back by itself after any
// fault, and is there at once if no server is.
func (d *Door) Connect(more ...nats.Option) (*nats.Conn, error) { return Connect(d.URLs(), more...) }

// Connect connects a client of another process by the door with those URLs.
func Connect(urls string, more ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(urls, append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ReconnectErrHandler(func(*nats.Conn, error) {}), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, more...)...)
}

// Stall, Cut, Drop and Heal do to every link of the door what they do to one.
func (d *Door) Stall() { d.each((*Link).Stall) }

// Cut closes the door.
func (d *Door) Cut() { d.each((*Link).Cut) }

// Drop ends the connections through the door, which stays open.
func (d *Door) Drop() { d.each((*Link).Drop) }

// Heal opens the door.
func (d *Door) Heal() { d.each((*Link).Heal) }

func (d *Door) each(fn func(*Link)) {
	for _, k := range d.links {
		fn(k)
	}
}

// To gives the door's link to one node.
func (d *Door) To(node int) *Link { return d.links[node] }
