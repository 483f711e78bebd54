// Package api answers what clients ask: verbs that read session records, change them by
// compare-and-swap, and wait for what comes of it.
//
// The way through it: Server.Call (call.go) is the one door to the verbs; nats.go brings
// requests of NATS to it. server.go makes the types that answer, one for each kind of verb:
// maker (create.go, run.go, fork.go), resumer, capturer (suspend.go, trigger.go), ender,
// trials, snapshots, views (read.go, usage.go, stats.go), policies (also simulate.go),
// keyVerbs and storeVerbs. All of them change records through sessions (sessions.go), which
// holds tenants to their quotas. A session with a terminal is made even if no host has room (seat);
// placer (queue.go) brings it to one later, and hostless.go has what such a session needs besides. board.go follows the log, so that a request can wait for
// the outcome of its own operation.
//
// Who asks: core NATS doesn't tell a service who sent a request, but it holds users to the
// subjects that they may publish. The user "gateway" alone may publish on
// diapause.v1.as.gateway.<verb>, so that what arrives there is the gateway's: its name is
// the Caller's identity and the actor in the record. What arrives on diapause.v1.api.<verb>
// proves nothing: the actor is "unverified". What the caller says of itself in the request
// (such as cli:root) is kept beside the actor as a note. The subjects are a root of their
// own, which configurations of before allow no user: a client that finds its subject
// refused, or not answered, asks on the other one. Their permissions are in package
// natsconfig for a fleet and in package embedded for `diapause up`. Whose NATS server lets
// several users publish on all of diapause.v1 has no proof of who asks, and lets them write
// records as well.
//
// The HTTP gateway asks for the bearers of tokens: on diapause.v1.bearer.<verb>, with the token in a
// header. tokens.go finds out whose it is, confine.go and reaching.go what that one may ask for. The subject is
// one that earlier versions don't answer: they would take such a request for the gateway's own.
//
// An answer is never published on a subject where it could be taken for a request or a
// record. The package never runs or captures anything: a worker does, when it finds the op
// in the record. Looking is never activity.
package api
