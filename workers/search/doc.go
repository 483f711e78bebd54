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
// BenchmarkSearch says what a search takes, in processor time (cpu) and as it was:
//
//	SEARCH_MEMORY=512 SEARCH_DIR=DIR SEARCH_SESSIONS=1000 SEARCH_MEGABYTES=3000 SEARCH_KINDS=10 go test ./search -run '^$' -bench BenchmarkSearch -benchtime 58x -timeout 3h
//
// On two cores that other work kept busy (load 18 to 29), of the first sessions of these, with ten kinds of output:
//
//	sessions  output   memory   cpu p50  cpu p99     p50      p99    index
//	     550  1.65 GB  512 MiB     8 ms    93 ms   14 ms   274 ms    4.3 %
//	     500  1.5 GB   128 MiB    10 ms   502 ms   70 ms  2869 ms    4.1 %
//
// All indexes took 263 MB then, some 480 kB a session. Where there is no room for them, words that the filters of many sessions let through
// for nothing take the longest: to open an index and read a block takes some 5 ms of a processor.
//
// After a start the sessions of which no more is recorded are summed up in the background (warm.go), one at a time, for at most a quarter of a processor's
// time, until the summaries take half of the memory. A search before that opens those that it doesn't know, which takes 15 to 25 ms of a processor for each.
//
// The package never wakes a session, puts no plaintext on a disk, and doesn't decide who may search: it is given the sessions, and their
// recordings open with a key of this host or not at all.
package search
