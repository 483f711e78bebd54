// Package policykv keeps the policies of sessions in a NATS KV bucket: one document
// for all, one per class, and one per session that is held to something of its own.
//
// A Store reads and changes documents, by compare-and-swap alone (package cas says
// how); every version says who made it, when and why, and 64 of each scope stay. A Cache follows the
// bucket and puts the layers together for one session after the other. Parts that decide
// ask it, so that a change applies from the moment in which it is heard.
//
// The package never decides about a session, and takes no document that isn't valid.
package policykv
