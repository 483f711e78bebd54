package metrics

import (
	"context"
	"sync"
	"time"
)

// Part is what one part of the process says of itself.
type Part struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // it isn't, for a person
}

// Health asks the parts of a process whether they can work.
type Health struct {
	mu    sync.Mutex
	names []string
	looks map[string]func(context.Context) (why string)
}

// NewHealth makes one that knows of no part yet.
func NewHealth() *Health { return &Health{looks: map[string]func(context.Context) string{}} }

// Set says how to ask a part: look gives why it can't work, or "". One of the same
// name is replaced.
func (h *Health) Set(name string, look func(context.Context) (why string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.looks[name]; !there {
		h.names = append(h.names, name)
	}
	h.looks[name] = look
}

// ReadyOn makes a part count as ready when started is closed; until then before says
// why it isn't.
func (h *Health) ReadyOn(name string, started <-chan struct{}, before string) {
	h.Set(name, func(context.Context) string {
		select {
		case <-started:
			return ""
		default:
			return before
		}
	})
}

// patience is how long one part may take to say how it is.
const patience = 3 * time.Second

// Look asks all parts at the same time, in the order in which they were named.
func (h *Health) Look(ctx context.Context) (parts []Part, ready bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h.mu.Lock()
	parts = make([]Part, len(h.names))
	said := make([]chan string, len(h.names))
	for i, name := range h.names {
		look, say := h.looks[name], make(chan string, 1)
		parts[i], said[i] = Part{Name: name}, say
		go func() { say <- look(ctx) }()
	}
	h.mu.Unlock()
	ready = true
	for i := range parts {
		select {
		case parts[i].Why = <-said[i]:
		case <-ctx.Done():
			parts[i].Why = "it doesn't say how it is"
		}
		parts[i].Ready = parts[i].Why == ""
		ready = ready && parts[i].Ready
	}
	return parts, ready
}
