package image

import "sync"

// window hands out the frames of a Place in the order of their packs, no further ahead
// of the oldest one under way than the cache of verified ciphertext goes: so none of that is
// fetched twice. The next pack is fetched while one is decoded.
type window struct {
	r    *Reader
	jobs []windowJob

	mu      sync.Mutex
	moved   sync.Cond
	next    int // job to be handed out
	low     int // the first one that isn't finished
	stopped bool
}

type windowJob struct {
	pack *packReader
	then *packReader // the pack that follows, in the first job of a pack
	upTo int64       // bytes of all packs up to this one and the next
	from int64       // bytes of all packs before this one
	done bool
}

// newWindow has each pack fetched by one request if at least half of it is needed.
func (r *Reader) newWindow(jobs [][]piece) *window {
	w := &window{r: r, jobs: make([]windowJob, len(jobs))}
	w.moved.L = &w.mu
	var needed, sum int64
	first := 0 // job of the pack
	for i, job := range jobs {
		p := r.packs[job[0].id.pack]
		if i == 0 || p != w.jobs[i-1].pack {
			if i > 0 {
				w.jobs[first].then = p
				sum += w.jobs[first].pack.ref.Size
			}
			first, needed = i, 0
		}
		if needed += p.frames[job[0].id.frame].size; 2*needed >= p.ref.Size {
			p.ahead.Store(true)
		}
		w.jobs[i] = windowJob{pack: p, from: sum, upTo: sum + p.ref.Size}
	}
	var then int64
	for i := range w.jobs {
		j := &w.jobs[i]
		if i == 0 || j.pack != w.jobs[i-1].pack {
			then = 0
			if j.then != nil {
				then = j.then.ref.Size
			}
		}
		j.upTo += then
	}
	return w
}

// take gives the next job, when there is room for what it fetches; none if all are given
// out, or after stop.
func (w *window) take() (job int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.stopped || w.next == len(w.jobs) {
			return 0, false
		}
		j := w.jobs[w.next]
		if w.next == w.low || j.upTo-w.jobs[w.low].from <= w.r.spans.limit {
			break
		}
		w.moved.Wait()
	}
	job = w.next
	w.next++
	if then := w.jobs[job].then; then != nil {
		w.r.background(func() { then.open() }) // its error is returned to the one that needs it
	}
	return job, true
}

// finish forgets the ciphertext of packs that nothing needs any more.
func (w *window) finish(job int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[job].done = true
	for w.low < len(w.jobs) && w.jobs[w.low].done {
		p := w.jobs[w.low].pack
		if w.low++; w.low == len(w.jobs) || w.jobs[w.low].pack != p {
			for i := range p.spans {
				w.r.spans.drop(spanID{p.number, int32(i)})
			}
		}
	}
	w.moved.Broadcast()
}

func (w *window) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.moved.Broadcast()
}
