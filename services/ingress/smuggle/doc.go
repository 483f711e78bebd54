// Package smuggle holds a server that leads HTTP to sessions to what may reach them: bytes that two readers could read in
// two ways are refused, or come to the session as one request that there is one way to read.
//
// The way through it: Listen opens a Backend, which stands for a session's server and keeps what it is sent byte by
// byte; Run sends it all that cases.go and stream.go list, through the server that is to be tested.
//
// It is for tests alone, and says nothing about who may reach a session.
package smuggle
