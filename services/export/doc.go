// Package export writes what was recorded of a terminal in the forms that other programs take: an asciicast, plain text, a page
// of HTML, or a line of JSON for each event.
//
// New gives the Writer of a form, which takes the events in their order (Each reads them from what a session's host sends) and is
// ended once. Writers hold one screen in memory, however long the recording is.
//
// What was recorded is untrusted: a page has no script and asks for nothing. The package cleans no text for a person's
// terminal, reads no recording by itself, and decides nothing about who may see one.
package export
