// Package simulation runs the scheduler and the worker as they are, against
// records, streams, a store and hosts that are in memory, in time that passes only
// when no one has anything to do: thousands of lives of a session a minute, each
// with its own order of events, crashes and delays.
//
// The way through it: a world (world_test.go) is one session's surroundings,
// drawn from a seed. Everything that a part says to the outside goes through a
// life (life_test.go), which takes a drawn time and ends for good when the part is
// killed, at any moment. records_test.go has the records,
// wire_test.go the activity and the commands, shop_test.go the objects,
// guard_test.go the host, and notes every call that breaks a promise; seal_test.go
// stands for age's keys, which cost more than all else.
// simulation_test.go draws what happens.
//
// It simulates no NATS: what JetStream does under faults is looked at with real
// servers, elsewhere.
package simulation
