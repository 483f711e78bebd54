// Package usage says how long sessions ran and slept, and what their images took in the
// store, from the log alone.
//
// Fold (fold.go) takes the revisions of records in the log's order and sums up, between
// times that are given beforehand; it does no I/O and reads no clock. Report (report.go)
// folds the log on request. Publisher (publish.go) follows the log and says every
// hour, in the stream of events, what each session used: see there when, and why.
//
// A session is metered as running from the transition that says that it runs until the one
// that says that it is suspended: to the instant, as both are in the log. Times are the
// writers', limited by the log's own clock, and never go back: even if clocks jump, no
// time is counted twice, none is negative, and what a session used in all is never more
// than the time that it existed.
//
// The package prices nothing, and never delays a session.
package usage
