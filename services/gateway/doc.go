// Package gateway is the HTTP API: every verb of package services/api as REST, what happens as server-sent
// events, and an OpenAPI document of all that, made from the Go types.
//
// The way through it: New makes a Gateway on a connection to NATS, Handler is all that it answers, Serve runs
// it on a listener that Listen has opened. guard.go bounds and checks every request before anything looks at it.
// operation.go makes an operation of a verb; sessions.go, policies.go, fleet.go and tokens.go list them; aliases.go
// lists those of earlier designs. problem.go is the one table from errors to HTTP. log.go and watch.go are the
// streams of events, attach.go is terminals (package terminal carries them), shares.go those that are watched, recorded.go what was recorded of them
// (download.go sends it), compare.go in what two of those differ, importing.go takes in others, logs.go is the end of an output, search.go finds lines in recordings, page.go serves the document and a page to try it, package console what people look at.
// reach.go leads requests for ports of sessions
// to package ingress, which carries them, and finds out who may reach them.
//
// What was decided here:
//
//   - A token is forwarded with each request, on a subject of NATS that only servers which know tokens answer.
//     They find out whose it is and what it may ask for. The gateway looks at no role, but for the streams of
//     events, for which it asks whoami at the start and every 15 seconds.
//   - A request is for a port by its Host, at every path. At the gateway's own hosts the path form is for tokens alone,
//     and its answers are sandboxed: what a session serves never has the origin of the API.
//   - Who may reach a port is asked again every 5 seconds, and every 15 while a request is open.
//   - A session is named in a path as TENANT.ID, or ID for the tenant default: neither part can have a dot.
//     TENANT%2FID works as well.
//   - Idempotency-Key is a field of the request (schemas.Request.Once): the API makes the session's uid of it, so
//     that the record says what was done, whichever gateway and server were asked. If-Match is the version
//     of a policy.
//   - The events of /events are the transitions in the log of records, and their ids its sequences. Revisions
//     that were moved out of NATS are told as one event "gap".
//   - The document lets answers have more members than it lists, as later versions will. Requests may not: a
//     member that isn't known is refused.
//   - Every list has pages in one way (paging.go): a header Link leads to the next one, which begins after a key. Nothing is kept for it.
//   - A recording that is imported is the one body that is passed on as it comes. All others are read at once, and small.
//   - A body is read when the API is known to know the token. A token that wasn't seen yet is asked about before.
//   - A browser's login is two secrets, one in a cookie and one in the storage of the page's origin, which make a token
//     together (login.go): cookies ignore ports. The API finds neither alone.
//   - The host of a private port gets a cookie of its own, by a code for that port that is good for once (loginport.go).
//   - What proxies say of a client is taken in before all else (outside.go), so that everything behind sees requests as
//     their clients have sent them.
//   - A page that a session serves may send heartbeats by the cookie of its port (presenceport.go): on its own origin, and
//     with a header that no other origin gets leave to send.
//   - Who watches by a share has a path of its own, that asks the API for that share alone: nothing on it types, wakes or counts as
//     use. Everywhere else the API answers the token of a share as one that there isn't.
//   - GET changes something at the two paths alone that earlier designs promise, and
//     a browser sends no bearer token by itself.
//
// The package keeps nothing that a restart would lose, decides nothing about sessions, and neither logs nor
// stores a token.
package gateway
