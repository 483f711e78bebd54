package natsconfig

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

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
server_name: %s
listen: %s
max_payload: 1MB

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
    imports: [ { service: { account: %s, subject: %s } } ]
    users: [%s
    ]
  }
}
`,
		quote(o.ServerName), quote(o.Listen), quote(o.StoreDir), quote(filepath.Join(o.installed(), authority.ServerFile)), quote(filepath.Join(o.installed(), authority.ServerKeyFile)),
		Main, quote(schemas.SubjectActivity+below), Edge, usersOf(Main, members),
		Edge, edgeConnections, edgePayload, Main, quote(schemas.SubjectActivity+below), usersOf(Edge, members))
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
