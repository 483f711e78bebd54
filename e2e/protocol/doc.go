// Package protocol tests the protocol between clients, API, scheduler and worker
// on the fake driver: what each verb does in each state, what happens when any
// part ends at any moment, and that no history of requests, activity and faults
// breaks what a session is promised.
//
// Its tests run the real parts in one process on an embedded NATS server. They
// need neither root nor CRIU.
package protocol
