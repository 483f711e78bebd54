package embedded

import (
	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/schemas"
)

// Names of the accounts.
const (
	AccountMain   = "DIAPAUSE"
	AccountEdge   = "EDGE"
	accountSystem = "SYS" // the server's own, without users
)

// Limits of clients without credentials. How many connections each user has, and all, the gate bounds (doors.go);
// all are below the server's own, so that the parts of `diapause up` still get in when an edge client floods it.
const (
	edgePayload    = schemas.MaxUncredentialed // bytes of one message
	allConnections = 4096
)

// unknownSubject is where the door leads what is said of sessions that there aren't: no one listens.
const unknownSubject = "diapause.v1.unknown"

// everything under a subject.
const below = ".>"

// clientDenied is what the client user may not publish of JetStream's requests: what
// changes or removes streams.
func clientDenied() []string {
	return []string{
		"$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.DELETE.>",
		"$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.>", "$JS.API.STREAM.RESTORE.>",
		"$JS.API.STREAM.SNAPSHOT.>", "$JS.API.STREAM.PEER.>", "$JS.API.STREAM.LEADER.>",
		"$JS.API.CONSUMER.LEADER.>", "$JS.API.ACCOUNT.>", "$JS.API.META.>", "$JS.API.SERVER.>",
	}
}

func clientPermissions() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{
			Allow: []string{
				schemas.SubjectAPI + below, schemas.SubjectAs + "." + string(UserClient) + below, // not as another user
				schemas.SubjectActivity + below, schemas.SubjectHost + below, schemas.SubjectProgress + below,
				"_INBOX.>", "$SRV.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>",
			},
			Deny: append(clientDenied(), schemas.SubjectHost+".*.forget", schemas.SubjectHost+".*.redact"),
		},
		// A client must not answer in place of the parts.
		Subscribe: &server.SubjectPermission{
			Allow: []string{">"},
			Deny:  []string{schemas.SubjectAPI + below, schemas.SubjectAs + below, schemas.SubjectBearer + below, schemas.SubjectHost + below, schemas.SubjectCommand + below},
		},
	}
}

func edgePermissions() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{schemas.SubjectActivity + below, unknownSubject}},
		Subscribe: &server.SubjectPermission{Deny: []string{">"}},
	}
}

// accountsConfig is the part of the server's configuration that only its own
// configuration language can say.
const accountsConfig = `
jetstream: enabled
system_account: SYS
accounts {
  SYS {}
  DIAPAUSE {
    jetstream: enabled
    exports: [ { service: "` + schemas.SubjectActivity + below + `", accounts: [EDGE], response_threshold: "5s" } ]
  }
  EDGE {
    limits { max_connections: EDGE_CONNECTIONS, max_payload: EDGE_PAYLOAD }
    imports: [ { service: { account: DIAPAUSE, subject: "` + schemas.SubjectActivity + below + `" } } ]
  }
}
`
