package upgrade

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/schemas"
)

// natsServer is a NATS server of the fleet's own, with the configuration that `nats-config` writes.
type natsServer struct {
	dir    string
	server *server.Server
	port   int
}

// configure writes the configuration with a program.
func (n *natsServer) configure(program string, hosts []schemas.HostID, names []string) error {
	args := []string{"nats-config", n.dir, "--streams", filepath.Join(n.dir, "streams")}
	for _, h := range hosts {
		args = append(args, "--host", string(h))
	}
	for _, name := range names {
		args = append(args, "--server-name", name)
	}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("nats-config: %w: %s", err, out)
	}
	return nil
}

// options reads the configuration. The port is the one of before, if there is one.
func (n *natsServer) options() (*server.Options, error) {
	o, err := server.ProcessConfigFile(filepath.Join(n.dir, "nats.conf"))
	if err != nil {
		return nil, fmt.Errorf("read the configuration of NATS: %w", err)
	}
	o.NoSigs, o.NoLog, o.Port = true, true, server.RANDOM_PORT
	if n.port != 0 {
		o.Port = n.port
	}
	return o, nil
}

func (n *natsServer) start() error {
	o, err := n.options()
	if err != nil {
		return err
	}
	if n.server, err = server.NewServer(o); err != nil {
		return fmt.Errorf("make a NATS server: %w", err)
	}
	n.server.Start()
	if !n.server.ReadyForConnections(limit) {
		return fmt.Errorf("the NATS server isn't ready after %s", limit)
	}
	n.port = n.server.Addr().(*net.TCPAddr).Port
	return nil
}

// reload has the server take a new configuration, as its signal does.
func (n *natsServer) reload() error {
	o, err := n.options()
	if err != nil {
		return err
	}
	return n.server.ReloadOptions(o)
}

func (n *natsServer) stop() {
	if n.server != nil {
		n.server.Shutdown()
		n.server.WaitForShutdown()
	}
}

func (n *natsServer) creds(user string) string { return filepath.Join(n.dir, "creds", user+".nk") }

func (n *natsServer) url(host string) string { return fmt.Sprintf("tls://%s:%d", host, n.port) }
