package natsconfig

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/authority"
)

// Limits of publishers, who may be strangers: above edgePayload, in bytes, the server
// ends their connection. What is less than that and too large all the same is counted.
const (
	edgeConnections = 8192
	edgePayload     = 2 * schemas.MaxActivity
)

// member is a user with its public key.
type member struct {
	User
	key string
}

// render writes the server's configuration.
func render(o Options, members []member) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by diapause nats-config, which writes it again when hosts or tenants come or
# go: the keys of users stay. Then: nats-server --signal reload
%slisten: %s
max_payload: 1MB
%s
# Every write is on the disk before it is acknowledged.
jetstream { store_dir: %s, sync_interval: always }

tls { cert_file: %s, key_file: %s, timeout: 10 }

system_account: SYS
accounts {
  SYS {}
  %s {
    jetstream: enabled
    # As a service, not as a stream: see the documentation.
    exports: [ { service: %s, accounts: [%s], response_threshold: "5s" } ]
    users: [%s
    ]
  }
  %s {
    limits { max_connections: %d, max_payload: %d }
    # What is published here carries a mark: it takes the place of nothing that the parts and people publish.
    imports: [%s
    ]
    users: [%s
    ]
  }
}
`,
		o.serverName(), quote(o.Listen), o.monitor()+o.cluster(), quote(o.StoreDir), quote(filepath.Join(o.installed(), authority.ServerFile)), quote(filepath.Join(o.installed(), authority.ServerKeyFile)),
		Main, quote(schemas.SubjectActivity+below), Edge, usersOf(Main, members),
		Edge, edgeConnections, edgePayload, imports(), usersOf(Edge, members))
	return b.String()
}

// serverName is the line that names the server, or says who does.
func (o Options) serverName() string {
	if o.Cluster.Name != "" {
		return "# All servers of the cluster share this file. Each has a name of its own: nats-server --name NAME\n"
	}
	return "server_name: " + quote(o.ServerName) + "\n"
}

func (o Options) monitor() string {
	if o.Monitor == "" {
		return ""
	}
	return "http: " + quote(o.Monitor) + "\n"
}

// cluster has servers let each other in that have a certificate of the authority's.
func (o Options) cluster() string {
	if o.Cluster.Name == "" {
		return ""
	}
	var routes []string
	for _, r := range o.Cluster.Routes {
		routes = append(routes, quote("tls://"+r))
	}
	at := o.installed()
	return fmt.Sprintf(`
cluster {
  name: %s
  listen: %s
  tls { cert_file: %s, key_file: %s, ca_file: %s, verify: true, timeout: 10 }
  routes: [ %s ]
}
`, quote(o.Cluster.Name), quote(o.Cluster.Listen), quote(filepath.Join(at, authority.ServerFile)), quote(filepath.Join(at, authority.ServerKeyFile)),
		quote(filepath.Join(at, "creds", natsconn.AuthorityFile)), strings.Join(routes, ", "))
}

// marked are the lengths of subjects, in words after SubjectActivity, of what is marked: the stream takes from
// three on, and longer ones than these come to nothing. What is shorter is counted as no activity.
const (
	markedLeast = 3
	markedMost  = 5
)

// imports has activity cross into the account of the streams, with a mark as its last word.
func imports() string {
	var b strings.Builder
	for n, subject := 1, schemas.SubjectActivity; n <= markedMost; n++ {
		subject += ".*"
		to := subject
		if n >= markedLeast {
			to += "." + schemas.FromEdge
		}
		fmt.Fprintf(&b, "\n      { service: { account: %s, subject: %s }, to: %s }", Main, quote(to), quote(subject))
	}
	return b.String()
}

// quote writes a string of the configuration language, in which "$" begins a variable
// outside of quotes.
func quote(s string) string { return strconv.Quote(s) }

func usersOf(a Account, members []member) string {
	var b strings.Builder
	for _, m := range members {
		if m.Account != a {
			continue
		}
		fmt.Fprintf(&b, "\n      # %s\n      { nkey: %s%s }", m.Name, m.key, m.permissions())
	}
	return b.String()
}

func (m member) permissions() string {
	if m.All {
		return ""
	}
	subscribe := `deny: ">"` // it asks nothing, so it needs no answers
	if m.Account == Main {
		subscribe = "allow: " + quoted(append([]string{inbox(m.key)}, m.Subscribe...))
	}
	return fmt.Sprintf(", permissions: {\n        publish: { allow: %s }\n        subscribe: { %s }\n      }", quoted(m.Publish), subscribe)
}

func quoted(subjects []string) string {
	lines := make([]string, len(subjects))
	for i, s := range subjects {
		lines[i] = "\n          " + quote(s)
	}
	return "[" + strings.Join(lines, "") + "\n        ]"
}
