// Package strangers bounds what is stored of publishers without credentials, at the doors that let them in: the
// server of `diapause up`, and the activity ports of sessions in a fleet.
//
// Stored (stored.go) gives the header that a message of theirs is stored with, and for how long. A Ledger (ledger.go)
// counts what is stored, and says when there is no room for more.
//
// The package publishes nothing and knows no connection.
package strangers
