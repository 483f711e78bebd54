// Package statekv keeps session records in a NATS KV bucket and changes them by
// compare-and-swap only.
//
// A Swap has one of three outcomes. Done: the transition is in the log. Refused
// (ErrConflict): a revision above the expected one was seen. Unknown: the answer
// was lost; Swap then repeats the identical write until the answer is definite
// and looks for the transition's id among the key's later revisions, and gives
// up (ErrUnknown) only with its context: the caller must then do nothing that
// would be wrong under either outcome. No read alone settles it, because a
// deposed leader may answer with the past.
//
// The package never decides a transition: session.Apply says what it makes of
// the record.
package statekv
