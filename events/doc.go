// Package events is for services that use Diapause: it says that sessions are in
// use, hears what becomes of them, and asks for them. It links nats.go and the wire
// vocabulary (package schemas), and nothing else.
//
// The way through it: Connect (client.go) gives a Client, and Client.Session a
// Session, whose methods say what happens there: Input, Exec, HTTP, Heartbeat and
// Output for what happens at a moment, Agent for what an agent is doing, Present, Busy
// and Hold for what lasts (lease.go). Client.Middleware marks requests of an HTTP server
// (http.go). Watch and WatchEvents read what becomes of sessions (watch.go), and
// WatchSessions what a list shows of them, as it changes (views.go); Ensure, Suspend and
// Checkpoint ask for it (ask.go), and API asks any verb (api.go). What is sent when, and what is kept while
// there is no connection, is decided by the outbox (outbox.go).
//
// Saying something never waits, never fails and never slows the service: a busy
// keyboard costs one message a second and kind, the first at once, and the last
// one always goes. Without a connection the last word of each kind is kept and
// said when there is one again. None of it needs this package: the subject and an
// empty message are enough,
//
//	nats pub diapause.v1.activity.acme.web-42.input ''
//
// The package never reads or writes session records, streams or buckets, and never
// uses the publisher's clock: what is said counts from when the server took it.
package events
