// Package documents holds the tests that run the commands which the documents
// show, and look whether what they link to and name is there, so that they stay true.
// It has no code of its own.
package documents
