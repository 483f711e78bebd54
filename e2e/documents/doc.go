// Package documents holds the test that runs the commands which the documents
// show, so that they stay true. It has no code of its own.
package documents
