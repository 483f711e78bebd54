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

// Add takes the next revision of a session, and gives the operations that it ends, the whole of each first; most
// end none. An operation whose place another takes ends as failed.
func (f *Fold) Add(v statekv.Versioned) (ended [][]Span) {
	if f.open == nil {
		f.open = map[schemas.Name]*operation{}
	}
	n, of, next := v.Name(), v.Transition.Op, ""
	if v.Op != nil {
		next = v.Op.ID
	}
	o := f.open[n]
	switch {
	case o == nil || of == o.id:
	case of == "" && (next == o.id || next == ""):
		of = o.id // it changes beside the operation, or ends it with the session
	default:
		o.changed(v.Transition)
		o.root.Failed = string(v.Transition.Type)
		ended, o = append(ended, o.spans()), nil
	}
	if o == nil && of != "" {
		o = begin(v, of)
	}
	if o != nil {
		o.add(v)
	}
	if o != nil && next != o.id {
		ended, o = append(ended, o.spans()), nil
		if next != "" { // what ends one may begin another
			o = begin(v, next)
			o.changed(v.Transition)
			o.owned(v)
		}
	}
	if f.open[n] = o; o == nil {
		delete(f.open, n)
	}
	return ended
}

// begin makes an operation that a revision begins.
func begin(v statekv.Versioned, id string) *operation {
	t := v.Transition
	o := &operation{id: id, root: Span{Name: string(t.Type), Start: t.At, ID: spanID(id)}}
	if v.Op != nil && v.Op.ID == id {
		o.root.Name = v.Op.Kind
		if v.Op.Move != nil {
			o.root.Name = "move"
		}
		o.root.Parent = asked(v.Op.Trace)
	}
	if o.root.Trace = o.root.Parent.TraceID(); !o.root.Trace.IsValid() {
		sum := sha256.Sum256([]byte("diapause trace " + id))
		o.root.Trace = trace.TraceID(sum[:16])
	}
	o.root.Attributes = []attribute.KeyValue{
		attribute.String("diapause.session", v.Name().String()), attribute.String("diapause.tenant", string(v.Tenant)),
		attribute.String("diapause.uid", string(v.UID)), attribute.String("diapause.op", id), attribute.String("diapause.asked_by", t.Actor),
		attribute.String("diapause.driver", string(v.Driver)), attribute.String("diapause.class", v.Class),
	}
	return o
}

// spans are those of an operation that has ended.
func (o *operation) spans() []Span { return append([]Span{o.root}, o.children...) }

// changed has a change of the session be the operation's last for now.
func (o *operation) changed(t schemas.Transition) {
	o.root.End = t.At
	o.root.Events = append(o.root.Events, Event{string(t.Type), t.At})
}

// owned notes who has the session, which changes while it is moved.
func (o *operation) owned(v statekv.Versioned) (on []attribute.KeyValue) {
	on = []attribute.KeyValue{attribute.String("diapause.host", string(v.Host)), attribute.Int64("diapause.epoch", int64(v.Epoch))}
	o.root.Attributes = append(slices.DeleteFunc(o.root.Attributes, func(a attribute.KeyValue) bool {
		return a.Key == on[0].Key || a.Key == on[1].Key
	}), on...)
	return on
}

// add takes one more revision of the operation.
func (o *operation) add(v statekv.Versioned) {
	t := v.Transition
	o.changed(t)
	if len(o.root.Events) > 1 && slices.Contains(failures, t.Type) { // the first may be the failure of another
		o.root.Failed = string(t.Type)
	}
	on := o.owned(v)
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
