// Package search asks the hosts of sessions for lines in what was recorded of their terminals, and puts together what they find.
//
// An Asking is one question (search.go): Ask sends it to each host with the sessions that it has, all at a time, and keeps the last lines within
// bounds. The sessions of a host that is away are searched by one that isn't: all have the same store.
//
// The package decides nothing about who may search: it is given the sessions, and the scope that hosts hold them to. It never
// resumes a session.
package search
