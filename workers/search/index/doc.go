// Package index is a full-text index of what one session's terminal showed, and of the commands that were typed in it.
//
// A Transcript (transcript.go) makes lines of text of the events of a recording, as a terminal shows them, without escape sequences. An Index
// (index.go) cuts them into blocks of some KiB, and keeps which words are in which block: in SQLite's FTS5, whose database is in
// memory (database.go). It has no lines: those of a block are read back from the recording (ReadBlock). What words are
// is in words.go, so that the same hold for what is indexed and for what is looked for. A Query (query.go) gives the blocks that may
// have a line, and decides of a line whether it is one.
//
// Words that are unlike any language, such as numbers and digests, are indexed by a hash of a few bits, and so are words once there are
// very many: an index stays small beside what it is of, whichever that is. It may name a block for nothing, and never leaves one out. So that
// among many sessions few are named for nothing, a filter (filter.go) says of each half a MiB which of the odd words it hasn't.
//
// Secrets (events/redact) are left out, of words and of commands alike: they aren't found by words. A regular expression is tried on what was
// recorded.
//
// The package touches no disk, store or network, has no keys and starts nothing: what Encode gives is content, for its caller to
// encrypt.
package index
