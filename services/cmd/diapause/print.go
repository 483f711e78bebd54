package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// printJSON prints one value, indented, on standard output.
func printJSON(v any) error {
	enc := json.NewEncoder(printed)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// printOutcome tells what became of a session.
func printOutcome(v schemas.View) {
	for _, n := range v.MadeRoom {
		fmt.Fprintf(printed, "session %s was suspended to make room\n", n)
	}
	fmt.Fprintln(printed, outcomeLine(v))
	printMoved(v)
}

// roomLine says where a session stands that waits for a host, and why none takes it.
func roomLine(q schemas.QueuePlace) string {
	if q.Reason == "" {
		return q.Standing()
	}
	return q.Standing() + ": " + q.Reason
}

func outcomeLine(v schemas.View) string {
	line := "session " + v.Name + " is " + string(v.State)
	if v.Archived != nil {
		line += " and archived"
	}
	switch v.State {
	case schemas.Running:
		line += " on host " + string(v.Host) + ", boot " + string(v.Boot)
		last := v.LastTransition.Type
		if v.Snapshot != nil && v.Boot != schemas.BootClean && (last == schemas.TResumed || last == schemas.TProved) { // else there may be a newer one
			line += " from " + v.Snapshot.ID
		}
		if last == schemas.TCheckpointed {
			return line // its stages are not of how it came to run
		}
	case schemas.Suspended:
		if v.Snapshot != nil {
			line += ": snapshot " + v.Snapshot.ID + ", " + size(v.Snapshot.LogicalBytes) + " in " + size(v.Snapshot.StoredBytes)
		}
	case schemas.Starting:
		if v.Queue != nil && v.Host == "" {
			line += ": it waits for room, " + roomLine(*v.Queue)
		}
	case schemas.Exited:
		if v.Exit != nil {
			line += fmt.Sprintf(" with status %d", v.Exit.Code)
		}
	}
	return line + steps(v)
}

// printCheckpoint tells of a snapshot that was made of a session that runs on.
func printCheckpoint(v schemas.View) {
	if v.Snapshot == nil {
		printOutcome(v)
		return
	}
	fmt.Fprintln(printed, fmt.Sprintf("snapshot %s of session %s: %s in %s; it runs on", v.Snapshot.ID, v.Name, size(v.Snapshot.LogicalBytes), size(v.Snapshot.StoredBytes))+steps(v))
}

func steps(v schemas.View) string {
	if s := stages(v.LastTransition.Stages); s != "" {
		return " (" + s + ")"
	}
	return ""
}

// stages writes what the parts of an operation took, and the whole: "open 5ms + fill 6ms =
// restore 11ms", then a rehearsal and the way that the memory took. What else goes on beside
// them is left to --json. Of operations of earlier versions, which have no parts, all stages
// are listed.
func stages(list []schemas.Stage) string {
	var parts, whole, beside, all []string
	for _, s := range list {
		text := s.Name + " " + (time.Duration(s.MS) * time.Millisecond).String()
		all = append(all, text)
		switch {
		case s.Part:
			parts = append(parts, text)
		case s.Name == "durable" || s.Name == "restore" || s.Name == "frozen":
			whole = append(whole, text)
		case s.Name == "memory" || s.Name == "buffered" || s.Name == "stream" || s.Name == "rehearsal":
			beside = append(beside, text)
		}
	}
	if len(parts) == 0 {
		return strings.Join(all, ", ")
	}
	slices.Reverse(whole) // what they add up to comes first
	return strings.Join(parts, " + ") + " = " + strings.Join(append(whole, beside...), ", ")
}

// count writes how many there are of something, "1 entry" or "2 entries".
func count[N int | int64 | uint64](n N, what string) string {
	switch stem, y := strings.CutSuffix(what, "y"); {
	case n == 1:
	case strings.HasSuffix(what, "ss"):
		what += "es"
	case y && !strings.ContainsAny(stem[max(len(stem)-1, 0):], "aeiou"): // "keys"
		what = stem + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

var units = []string{"B", "kB", "MB", "GB", "TB"}

// size writes bytes in powers of 1000.
func size(n int64) string {
	f, u := float64(n), 0
	for f >= 1000 && u < len(units)-1 {
		f, u = f/1000, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// ago writes how long ago something was.
func ago(t time.Time) string { return span(time.Since(t)) }

// span writes how long something took or lasts, in the largest unit that it fills.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// idleFor is how long a session that runs wasn't used: not longer than it runs.
func idleFor(v schemas.View) time.Duration {
	return min(time.Duration(v.IdleSeconds*float64(time.Second)), max(time.Since(v.Since), 0))
}

// printWarnings prints what a start or a capture warned of.
func printWarnings(v schemas.View) {
	for _, w := range v.Warnings {
		fmt.Fprintln(complained, "warning: "+w.Text)
	}
}
