// Package search searches what terminals showed, and the commands that were typed in them, over many sessions.
//
// A Searcher (search.go) keeps an index of each session (package index), in memory while it is used, within a bound (cache.go). It goes on with
// one by what was recorded since, so output is found that is a moment old, and stores it beside the recording, sealed as that is, once enough
// has come (keep.go): any host with the key of a reader goes on from there, and it goes with the recording. An index says which parts
// of a recording may have a line. Those are read back from the recording itself, and lines are found in them alone (find.go), so a wrong index
// names nothing that wasn't recorded.
//
// The package never wakes a session, puts no plaintext on a disk, and doesn't decide who may search: it is given the sessions, and their
// recordings open with a key of this host or not at all.
package search
