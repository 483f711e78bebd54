package traces

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Span is a part of a trace. The first of an operation's is the whole of it, the others are its children.
type Span struct {
	Trace      trace.TraceID
	ID         trace.SpanID
	Parent     trace.SpanContext // of another's trace; of children the first
	Name       string
	Start, End time.Time
	Failed     string // what kind of change says that it failed; "" if it didn't
	Attributes []attribute.KeyValue
	Events     []Event
}

// Event is a change of the session's state.
type Event struct {
	Name string
	At   time.Time
}

// Fold makes spans of revisions.
type Fold struct {
	open map[schemas.Name]*operation
}

// operation is one that hasn't ended.
type operation struct {
	root     Span
	id       string
	children []Span
}

// failures are the changes that end an operation without what it was for.
var failures = []schemas.TransitionType{
	schemas.TStartFailed, schemas.TSuspendFailed, schemas.TResumeFailed, schemas.TCheckpointFailed, schemas.TLost, schemas.TFellBack, schemas.TMovedBack,
}

// Add takes the next revision of a session, and gives the spans of the operation that it ends; none if it
// ends none.
func (f *Fold) Add(v statekv.Versioned) []Span {
	if f.open == nil {
		f.open = map[schemas.Name]*operation{}
	}
	n, t := v.Name(), v.Transition
	o := f.open[n]
	switch {
	case o == nil && t.Op == "":
		return nil
	case o == nil || t.Op != "" && t.Op != o.id: // or another takes its place
		o = begin(v)
		f.open[n] = o
	}
	o.add(v)
	if v.Op != nil && v.Op.ID == o.id {
		return nil
	}
	delete(f.open, n)
	return append([]Span{o.root}, o.children...)
}

func begin(v statekv.Versioned) *operation {
	id, name := v.Transition.Op, string(v.Transition.Type)
	o := &operation{id: id}
	if v.Op != nil {
		name = v.Op.Kind
		if v.Op.Move != nil {
			name = "move"
		}
		o.root.Parent = asked(v.Op.Trace)
	}
	o.root.Name, o.root.Start, o.root.ID = name, v.Transition.At, spanID(id)
	if o.root.Trace = o.root.Parent.TraceID(); !o.root.Trace.IsValid() {
		sum := sha256.Sum256([]byte("diapause trace " + id))
		o.root.Trace = trace.TraceID(sum[:16])
	}
	o.root.Attributes = []attribute.KeyValue{
		attribute.String("diapause.session", v.Name().String()), attribute.String("diapause.uid", string(v.UID)),
		attribute.String("diapause.op", id), attribute.String("diapause.asked_by", v.Transition.Actor),
		attribute.String("diapause.driver", string(v.Driver)), attribute.String("diapause.class", v.Class),
	}
	return o
}

// add takes one more revision of the operation.
func (o *operation) add(v statekv.Versioned) {
	t := v.Transition
	o.root.End = t.At
	o.root.Events = append(o.root.Events, Event{string(t.Type), t.At})
	if slices.Contains(failures, t.Type) {
		o.root.Failed = string(t.Type)
	}
	on := []attribute.KeyValue{attribute.String("diapause.host", string(v.Host)), attribute.Int64("diapause.epoch", int64(v.Epoch))}
	o.root.Attributes = append(slices.DeleteFunc(o.root.Attributes, func(a attribute.KeyValue) bool {
		return a.Key == on[0].Key || a.Key == on[1].Key
	}), on...)
	var took time.Duration
	for _, s := range t.Stages {
		if s.Part {
			took += time.Duration(s.MS) * time.Millisecond
		}
	}
	at := t.At.Add(-took)
	if at.Before(o.root.Start) { // clocks of two hosts
		at = o.root.Start
	}
	for i, s := range t.Stages {
		if !s.Part {
			o.root.Attributes = append(o.root.Attributes, attribute.Int64("diapause.stage."+s.Name+".ms", s.MS))
			continue
		}
		end := at.Add(time.Duration(s.MS) * time.Millisecond)
		child := Span{Trace: o.root.Trace, ID: spanID(fmt.Sprintf("%s %d %d", o.id, v.Version, i)), Name: o.root.Name + "." + s.Name, Start: at, End: end, Attributes: on}
		if s.Bytes > 0 {
			child.Attributes = append(slices.Clone(on), attribute.Int64("diapause.bytes", s.Bytes))
		}
		o.children = append(o.children, child)
		at = end
	}
}

func spanID(of string) trace.SpanID {
	sum := sha256.Sum256([]byte("diapause span " + of))
	return trace.SpanID(sum[:8])
}
