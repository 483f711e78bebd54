package preflight

import (
	"fmt"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// threads judges what threads have apart from their process: CRIU looks at the first thread
// and gives all of them what that one has.
func threads(j *judge, p *Process) {
	for _, t := range p.Apart {
		name := fmt.Sprintf("thread %d (%s)", t.Inside, t.Name)
		switch {
		case t.Space != "":
			blockThread(j, p, t, name+" is in a "+t.Space+" namespace of its own")
		case t.Files:
			blockThread(j, p, t, name+" has open files of its own")
		case t.Elsewhere:
			blockThread(j, p, t, name+" has a working directory, root or umask of its own")
		default:
			j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside),
				"%s can change its working directory for itself: after a resume it does so for the whole process", name)
		}
	}
}

// blockThread notes a blocker that counts if it stays: a thread that ends has nothing any more.
func blockThread(j *judge, p *Process, t Thread, what string) {
	j.findings = append(j.findings, finding{
		Blocker: driver.Blocker{PID: p.Inside, Program: p.Comm, What: what, Why: "CRIU gives all threads of a process what the first one has",
			Fix: "turn the feature off in the program, or let it use processes instead of threads"},
		pair: fmt.Sprint("thread ", t.TID),
	})
}

// sharing names processes that share what CRIU can bring back for each by itself only.
func sharing(j *judge) {
	for _, s := range j.Shared {
		a, b := j.processes[s.A], j.processes[s.B]
		if a == nil || b == nil {
			continue
		}
		if a.Parent == b.PID {
			a, b = b, a
		}
		if s.Kind == kcmpFiles && b.Parent == a.PID {
			continue // CRIU brings that back
		}
		what := map[int]string{kcmpMemory: "memory", kcmpPlaces: "working directory", kcmpSignals: "signal handlers", kcmpFiles: "table of open files"}[s.Kind]
		j.findings = append(j.findings, finding{
			Blocker: driver.Blocker{PID: b.Inside, Program: b.Comm, What: fmt.Sprintf("it shares its %s with %s (pid %d)", what, a.Comm, a.Inside),
				Why: "CRIU can't bring back what two processes share by clone", Fix: "wait until the child has started its program, or let the program use threads"},
			pair: fmt.Sprint("shared ", s),
		})
	}
}
