// Package ingress leads HTTP and TCP from outside to ports inside sessions, and resumes a suspended
// session for those who may.
//
// The way through it: Parse (route.go) reads from a request which port of which session it is for, Classify
// (classify.go) what asks, and Decide (decide.go) whether that resumes a session, is answered in its stead or
// is ignored; all three are pure. Proxy (proxy.go) carries HTTP by them, over the connections of transport.go;
// wakes.go has each session resumed once however many requests wait for it; page.go and problem.go write what
// a person and what a program get meanwhile. TCP (tcp.go) carries the connections of one listener. What the
// package needs of the rest of the system are the ports of ports.go; package ingress/client has them over NATS.
// unread.go keeps strangers' bodies away, timing.go says how long a request waited.
//
// What was decided where several ways were open:
//
//   - Nothing is resumed, and no lease begins, before Authorizer has said yes, for each request by itself.
//   - A robot that says so in its User-Agent is believed, with any other header: all that it gains is to be
//     kept waiting. Among the others Accept decides, then Sec-Fetch-Mode, then User-Agent.
//   - A request that may be sent twice (without a body, by a method without side effects) and is use goes over kept
//     connections. Every other request goes over a connection of its own: a server that closes an idle connection
//     just then can't lose it. gRPC is the exception, as HTTP/2 says which requests weren't read.
//   - A body isn't read before the connection to the session is there. So it needs no memory while a session is
//     resumed, and connecting can be tried again.
//   - A probe that finds the session suspended gets 200, so that a load balancer goes on sending requests,
//     which resume it; of a session that can't be resumed it gets 503. It holds no lease.
//   - A reconnect that finds the session running is a lease as long as it is open, but no activity.
//   - A navigation that waits longer than Budgets.Page gets the waiting page, which reloads itself. Its button
//     ends the waiting, not the resume: that can't be taken back, and the session is suspended after its grace.
//   - The page asks at Reserved on its own origin. That one path never reaches a session.
//   - A navigation to the path form is redirected to the session's own origin. Other answers of the path form are
//     sandboxed, and no cookie passes there.
//   - The body of a request is neither read nor waited for before its sender is known to be allowed.
//   - A session's cookies are for its own host name alone: the Domain of Set-Cookie is dropped.
//
// The package keeps nothing that outlives a restart, buffers no body, and never decides who may.
package ingress
