// Package asciicast reads recordings of terminals in the format of asciinema, versions 2 and 3, as they come: a line at a time, in
// bounded memory, however long the recording is.
//
// NewReader reads the header, Next gives one event after another. What the format leaves to readers is taken as its documents
// say: kinds of events that aren't known are passed over, and so are comments; text that isn't UTF-8 gets U+FFFD in its place; times of
// version 2 that run backwards count as that of the event before. All else that isn't an asciicast is an Error that says the line.
//
// A file is untrusted. The package interprets nothing that a terminal showed, and decides nothing about what is kept.
package asciicast
