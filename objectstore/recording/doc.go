// Package recording is the format in which the output of a session's terminal is kept: signed,
// encrypted segments in the store, chained by digests, with the time of each piece of output.
//
// The way through it, writing: a Writer compresses and encrypts the events of one segment as they
// come, Header says what is in it, Seal puts both together and signs them, and Put stores that.
// Reading: Follow gives the segments that lead to the end of a recording, the first one first, each
// verified by its digest or signature, and Read gives the events of one.
// Rewrite stores a segment once more with something taken out, and a Redaction has that count.
// FORMAT.md has the bytes; a recording can be read with tail, age and zstd alone.
//
// The package never decides what is recorded, never deletes a segment, never puts plaintext
// anywhere but into the memory of the process, and never hands out an event of a segment that
// wasn't verified.
package recording
