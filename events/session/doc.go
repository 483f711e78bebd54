// Package session is what a session is and what may become of it: the state
// machine, the idle rules, and nothing that does I/O.
//
// Apply says what a transition makes of a record, or why it may not happen; it
// is the one place that knows which states lead where. Folding the transitions
// of a key through Apply gives its record back, which is how the log is
// audited. View gathers what is known of a session's activity, and Decide says
// what that means now: suspend, wake, or look again later, with what stands in
// the way, by a Policy: layers of schemas.Policy over what is built in. All of them
// take the time as a value. Package replay lives what was heard again under another one.
//
// The package never reads a clock, a stream or a store, and never decides by a
// publisher's clock: times of activity are the server's, or this host's when
// the message came.
package session
