package gateway

import (
	"fmt"
	"net/http"
	"sync"
)

// slots bounds how many of something are under way at a time. The zero value of its unexported state is ready.
type slots struct {
	what string
	each int // of one token
	most int // of all

	mu  sync.Mutex
	of  map[string]int // by actor
	all int
}

// begin takes a slot, until end.
func (s *slots) begin(actor string) (end func(), p *Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[actor] >= s.each {
		return nil, refusal(http.StatusTooManyRequests, fmt.Sprintf("%d %s of this token are under way", s.each, s.what), "ask again when one has ended")
	}
	if s.all >= s.most {
		return nil, refusal(http.StatusServiceUnavailable, "too many "+s.what+" are under way", "ask again later")
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.all++
	s.of[actor]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[actor]--; s.of[actor] == 0 {
			delete(s.of, actor)
		}
	}, nil
}
