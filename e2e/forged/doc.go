// Package forged shows that an image that was damaged, exchanged or made by
// someone else is refused before CRIU is started, by the real program on a real
// suspended session: each case changes objects of a directory store, asks for the
// session, and puts back what was there.
//
// That CRIU wasn't started is seen by a wrapper around it, which notes every
// start; the session that comes back in the end shows that the wrapper does.
package forged
