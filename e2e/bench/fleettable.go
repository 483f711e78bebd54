package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/million"
)

const fleetPreface = `# One host, and a fleet worked out from it

Written by ` + "`make bench`" + ` (` + "`go run ./e2e/bench/cmd -only fleet`" + `); don't edit.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

## Suspends and resumes

Sessions of ` + "`sleep`" + ` are suspended and resumed again and again, each by commands of its own, on a store in a
directory. ` + "`up`" + `, the shims and CRIU compute on the first cores alone (` + "`taskset`" + `); the commands and NATS' disk
have the whole machine. A round is a suspend and its resume.

| cores | sessions beside each other | rounds a minute | the cores are busy | computing a round |
| --: | --: | --: | --: | --: |
`

const messagesPreface = `
## Messages

What all parts send to NATS and get from it, as the server counts it (` + "`in_msgs`" + ` and ` + "`out_msgs`" + ` of its ` + "`/varz`" + `), and
what its streams take of that.

| | messages | stored |
| --- | --: | --: |
`

const memoryPreface = `
## What a NATS server holds for a session

Records and activity as in [e2e/million](../million/RESULTS.md): one session in ten runs, the others are suspended.
Bytes a session, without what the process takes with none; "quiet" is after %s without a message, "in use" the
heap after a collection, the rest is what Go hasn't collected or given back yet. In a heap profile of nats-server
(50,000 sessions) nine tenths of what is in use are the index of subjects, of which a session has three or so: the
record, its last input and its heartbeat. The rest of a process are blocks of messages that were written, and wait for a
collection: GOGC says how much of that there may be. A server to which nothing is said collects every two minutes,
and gives the memory back after that. The one in ` + "`up`" + ` does both some seconds after the last message.

| sessions | GOGC | just written | quiet | in use | after a restart |
| --: | --: | --: | --: | --: | --: |
`

const workedPreface = `
## Worked out

For %d hosts and %d sessions, one in ten of which runs, from the figures above. Each session is suspended and resumed
so many times a day; what is stored is synced, and [e2e/million](../million/RESULTS.md) measured here how much of that one server
takes before decisions are late (%d a second) and three do (%d a second).

| rounds a session and day | rounds a second | of what a host can do | messages a second, those of idle hosts among them | stored a second | of what one server takes | of what three take |
| --: | --: | --: | --: | --: | --: | --: |
`

// The fleet that is worked out.
const (
	manyHosts    = 1000
	manySessions = 1000000
)

// What e2e/million measured here: stored messages a second before decisions are late.
const (
	oneServer    = 4020
	threeServers = 20018
)

// Table makes the document; load is what the machine did besides.
func (f Fleet) Table(ctx context.Context, load string, quiet time.Duration) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, fleetPreface, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx), time.Now().UTC().Format(time.RFC3339), load)
	for _, r := range f.Rates {
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f %% | %d ms |\n", r.Cores, r.Sessions, r.Minute(), 100*r.Busy, r.Each().Milliseconds())
	}
	m := f.Messages
	b.WriteString(messagesPreface)
	for _, row := range []struct {
		what string
		n    Count
	}{
		{"`up`, a host among it, idle, a minute", m.Up},
		{"one more host, idle, a minute", m.Host},
		{fmt.Sprintf("the same with %d sessions that sleep in the kernel", m.Sessions), m.Running},
		{"the same while they are suspended", m.Asleep},
		{"a suspend and its resume", m.Round},
	} {
		fmt.Fprintf(&b, "| %s | %.0f | %.1f |\n", row.what, row.n.Messages, row.n.Stored)
	}
	fmt.Fprintf(&b, memoryPreface, quiet)
	for _, n := range f.Memory {
		fmt.Fprintf(&b, "| %d | %s | %.0f | %.0f | %.0f | %.0f |\n",
			n.Sessions, n.Server, n.Each(n.Filled), n.Each(n.Quiet), float64(n.Live)/float64(n.Sessions), n.Each(n.Restarted))
	}
	f.worked(&b)
	return b.Bytes()
}

// worked works the figures out to a large fleet.
func (f Fleet) worked(b *bytes.Buffer) {
	fmt.Fprintf(b, workedPreface, manyHosts, manySessions, oneServer, threeServers)
	most := f.Rates[len(f.Rates)-1].Minute() / 60
	for _, daily := range []float64{1, 10, 50, 100} {
		rounds := daily * manySessions / (24 * time.Hour).Seconds()
		all := Count{}.plus(f.Messages.Running, float64(manyHosts)/60).plus(f.Messages.Round, rounds)
		fmt.Fprintf(b, "| %.0f | %.0f | %.1f %% | %.0f | %.0f | %.0f %% | %.0f %% |\n",
			daily, rounds, 100*rounds/manyHosts/most, all.Messages, all.Stored, 100*all.Stored/oneServer, 100*all.Stored/threeServers)
	}
	gb := func(m million.Memory) float64 { return m.Each(m.Filled) * manySessions / 1e9 }
	b.WriteString("\nEach NATS server holds all of it in memory and on its disk:")
	last := 0
	for _, m := range f.Memory {
		last = max(last, m.Sessions)
	}
	for _, m := range f.Memory {
		if m.Sessions == last && !m.Trims {
			fmt.Fprintf(b, " %.1f GB of memory with GOGC=%s.", gb(m), m.Server)
		}
	}
	b.WriteString(f.bottleneck())
}

// bottleneck says what ends first as such a fleet is used more.
func (f Fleet) bottleneck() string {
	host := f.Rates[len(f.Rates)-1].Minute() / 60 * manyHosts
	nats := (threeServers - f.Messages.Running.Stored/60*manyHosts) / f.Messages.Round.Stored
	which := "the hosts' cores"
	if nats < host {
		which = "the writes that NATS syncs: one stream has one leader, whose disk takes them"
	}
	return fmt.Sprintf("\n\nThe bottleneck is %s. The hosts could do %.0f rounds a second together, three NATS servers take those of %.0f.\n", which, host, nats)
}
