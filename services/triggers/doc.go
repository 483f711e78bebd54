// Package triggers makes checkpoints of sessions whose agents say what they are doing:
// that a run begins or ends, that they are about to act or have acted, that they want one
// now.
//
// Agents publish activity of the kind "agent" and never wait. Taker (taker.go) hears it,
// asks the session's policy which of it makes a checkpoint, and has a Checkpointer make it
// while the session runs on. Of what comes while one is made the newest is taken up next,
// and says how many it stands for; after each there is a pause (pace.go), so that a session
// never stands still for more than a fifth of the time, nor for captures that fail.
//
// Each trigger is acted on once at most: the record of the session keeps the last one, by
// its sequence in the stream, and of two takers one loses the swap. A trigger that wasn't
// heard within half a minute is dropped: the moment that it was for is over.
//
// Timed (every.go) makes checkpoints of sessions at the intervals of their policy, whether an agent says
// something or not, so that no more than that is lost with their host.
//
// The package never suspends or wakes a session, and what fails here costs the agent
// nothing.
package triggers
