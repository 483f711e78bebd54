package criu

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// BenchmarkHardening starts, suspends and resumes a session as it is by default, and one with all that can be loosened: the
// host's network, all system calls and all capabilities. They take turns, so that what else the machine does is
// the same for both. It gives the medians, in milliseconds, and by how much the default takes longer:
//
//	../e2e/setup/root.sh go test ./criu -run '^$' -bench Hardening -benchtime 50x -timeout 20m
//
// Nothing else should go on on the machine.
func BenchmarkHardening(b *testing.B) {
	command := []string{"/bin/sh", "-c", ": >/ready; exec sleep 1000000"}
	modes := []struct {
		name string
		spec schemas.Spec
	}{
		{"default", schemas.Spec{Command: command, Network: schemas.NetworkPrivate}},
		{"loosened", schemas.Spec{Command: command, Network: schemas.NetworkHost, Seccomp: schemas.Unconfined, CapAdd: []string{"ALL"}}},
	}
	s := openBenched(b, "")
	took := map[string][]float64{}
	for b.Loop() {
		for _, m := range modes {
			for step, d := range s.life(b, m.spec) {
				took[m.name+step] = append(took[m.name+step], float64(d.Microseconds())/1000)
			}
		}
	}
	for _, step := range []string{"-start", "-suspend", "-resume"} {
		was, is := middle(took[modes[1].name+step]), middle(took[modes[0].name+step])
		b.ReportMetric(is, modes[0].name+step+"-ms")
		b.ReportMetric(was, modes[1].name+step+"-ms")
		b.ReportMetric(is-was, "more"+step+"-ms")
	}
}

// life starts a session, suspends it, resumes it and ends it, and says how long each but the last took.
func (s *benched) life(b *testing.B, spec schemas.Spec) map[string]time.Duration {
	b.Helper()
	took := map[string]time.Duration{}
	began := time.Now()
	lap := func(step string) {
		took[step] = time.Since(began)
		began = time.Now()
	}
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	i, err := s.d.Start(b.Context(), s.next(), spec, drivertest.Begin)
	must(err)
	lap("-start")
	awaitFile(b, fmt.Sprintf("/proc/%d/root/ready", i.PID))
	began = time.Now()
	_, _, head := s.suspend(b, schemas.RehearseNever)
	must(s.d.Stop(b.Context(), s.next()))
	lap("-suspend")
	img, err := image.Open(b.Context(), s.store, head, s.read)
	must(err)
	_, err = s.d.Restore(b.Context(), s.next(), spec, img, schemas.BootResume, drivertest.Begin)
	must(errors.Join(err, img.Close()))
	lap("-resume")
	must(s.d.Stop(b.Context(), s.next()))
	return took
}

// middle gives the median.
func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
