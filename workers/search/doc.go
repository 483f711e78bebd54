// Package search searches what terminals showed, and the commands that were typed in them, over many sessions.
//
// A Searcher (search.go) keeps an index of each session (package index), in memory while it is used, within a bound (cache.go). It goes on with
// one by what was recorded since, so output is found that is a moment old, and stores it beside the recording, sealed as that is, once enough
// has come (keep.go): any host with the key of a reader goes on from there, and it goes with the recording. An index says which parts
// of a recording may have a line. Those are read back from the recording itself, and lines are found in them alone (find.go), so a wrong index
// names nothing that wasn't recorded.
//
// Of a session of which no more is recorded a summary of its index (index.Summary) stays in memory when there is no room for the index. A search
// (search.go) first asks the summaries, then opens the indexes of those sessions that may have a line, the ones with the latest output first, until
// enough is found. It looks up the record of a session only if more may be recorded of it, if it is of another host, or if the client lists another
// version than is known.
//
// # Speed
//
// BenchmarkSearch says what a search takes. Of 500 sessions with 1.5 GB of output, ten kinds of it, with the usual 128 MiB, on two cores that other
// work kept busy (load 25):
//
//	SEARCH_DIR=DIR SEARCH_SESSIONS=1000 SEARCH_MEGABYTES=3000 SEARCH_KINDS=10 go test ./search -run '^$' -bench BenchmarkSearch -benchtime 58x -timeout 3h
//
//	p50 10 ms of a processor, 70 ms as it was; p99 502 ms of a processor, 2.9 s as it was; the indexes take 4.1 % of the output
//
// Most take less than 10 ms of a processor. Those of the p99 are for words that the filters of many sessions let through for nothing: an index that isn't
// open takes some 5 ms of a processor to open and to read a block of. The first search after a start takes 25 ms of a processor for each session.
//
// The package never wakes a session, puts no plaintext on a disk, and doesn't decide who may search: it is given the sessions, and their
// recordings open with a key of this host or not at all.
package search
