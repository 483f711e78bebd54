// Package fleet knows which hosts are there, places sessions on them, and finds a
// home for the sessions of one that is gone.
//
// Fits and Choose (place.go) say which host can take a session or an image, by what hosts announce,
// what operators ordered about them, and what the session's placement asks for. Fleet
// (fleet.go) watches leases and records; when a lease has run out and its host has
// sessions that something can be done for (Plan, plan.go), it ends the lease and
// then moves them, record by record (takeover.go). Each of its records was read before
// the lease was ended, or said again to be ended: what the host writes after it has
// taken a new lease wins. Two fleets that do this at once are harmless.
// What a host couldn't resume it has others try, and it chooses the hosts of resumes that have none
// yet (elsewhere.go).
//
// A session that runs is taken over only where its own policy allows that, since only
// then its shim freezes it by itself; and only from a snapshot. The package never
// touches a process, and never removes anything.
package fleet
