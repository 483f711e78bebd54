// Package cas writes one message per subject by compare-and-swap, and knows what
// came of it.
//
// A Write has one of three outcomes. Done. Refused (ErrConflict): a revision above
// the expected one was seen. Unknown: the answer was lost; Write then repeats the
// identical write until the answer is definite and looks for what it wrote among
// the subject's later revisions, and gives up (ErrUnknown) only with its context.
// No read alone settles it, because a deposed leader may answer with the past.
//
// The package never looks into a message: its callers, statekv, policykv, keykv and
// lease, do.
package cas
