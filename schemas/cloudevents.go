package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"time"
)

// TypeActivity is the type of a CloudEvent whose data is an Activity.
const TypeActivity = "diapause.activity"

// CloudEvent is what is kept of the envelope of an activity that came as a
// CloudEvent 1.0.
type CloudEvent struct {
	ID     string
	Source string
	Type   string
	Time   time.Time // by the publisher's clock: to be shown, never to be counted with
}

// Said is what one message on an activity subject says.
type Said struct {
	Activity
	Event *CloudEvent // nil if it came without an envelope
}

// ParseMessage reads a message on an activity subject: an Activity, nothing, or a
// CloudEvent 1.0, structured or binary, in the NATS binding. The subject alone says
// which session and kind it is about; the data of the event may be an Activity. Data
// of any type but TypeActivity is the publisher's own: of it only what fits is taken.
func ParseMessage(header map[string][]string, data []byte) (Said, error) {
	if len(data) > MaxActivity {
		return Said{}, fmt.Errorf("%w: %d bytes", ErrTooBig, len(data))
	}
	h := newEnvelope(header)
	switch {
	case h["ce-specversion"] != "":
		return binary(h, data)
	case structured(h["content-type"], data):
		return parseStructured(data)
	}
	a, err := ParseActivity(data)
	return Said{Activity: a}, err
}

// envelope are the headers that matter, by their names in lower case.
type envelope map[string]string

func newEnvelope(header map[string][]string) envelope {
	var h envelope // most messages have none of them
	for key, values := range header {
		matters := strings.EqualFold(key, "content-type") || len(key) > 3 && strings.EqualFold(key[:3], "ce-")
		if !matters || len(values) == 0 {
			continue
		}
		if h == nil {
			h = envelope{}
		}
		h[strings.ToLower(key)] = values[0]
	}
	return h
}

const structuredType = "application/cloudevents"

// structured tells a CloudEvent in JSON by its content type, or without one by what
// no Activity has.
func structured(contentType string, data []byte) bool {
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), structuredType) {
		return true
	}
	if !bytes.Contains(data, []byte(`"specversion"`)) {
		return false
	}
	var probe struct {
		SpecVersion json.RawMessage `json:"specversion"`
	}
	return json.Unmarshal(data, &probe) == nil && probe.SpecVersion != nil
}

func binary(h envelope, data []byte) (Said, error) {
	e := event{
		SpecVersion: plain(h["ce-specversion"]), ID: plain(h["ce-id"]), Source: plain(h["ce-source"]), Type: plain(h["ce-type"]),
		Time: plain(h["ce-time"]), ContentType: h["content-type"],
	}
	return e.said(data)
}

// plain undoes the percent-encoding of a header, where there is any.
func plain(s string) string {
	if v, err := url.PathUnescape(s); err == nil {
		return v
	}
	return s
}

// event is a CloudEvent in JSON.
type event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Time        string          `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`
	Base64      []byte          `json:"data_base64"`
}

func parseStructured(data []byte) (Said, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return Said{}, fmt.Errorf("%w: not a structured CloudEvent: %w", ErrPayload, err)
	}
	if len(e.Base64) > 0 {
		return e.said(e.Base64)
	}
	return e.said(e.Data)
}

// said reads the data of an event.
func (e event) said(data []byte) (Said, error) {
	if e.SpecVersion != "1.0" {
		return Said{}, fmt.Errorf("%w: CloudEvents specversion %q, want 1.0", ErrPayload, shown(e.SpecVersion, 16))
	}
	if e.ID == "" || e.Source == "" || e.Type == "" {
		return Said{}, fmt.Errorf("%w: a CloudEvent needs an id, a source and a type", ErrPayload)
	}
	s := Said{Event: &CloudEvent{ID: shown(e.ID, 128), Source: shown(e.Source, 256), Type: shown(e.Type, 128)}}
	if e.Time != "" {
		at, err := time.Parse(time.RFC3339, e.Time)
		if err != nil {
			return Said{}, fmt.Errorf("%w: time of the CloudEvent: %w", ErrPayload, err)
		}
		s.Event.Time = at
	}
	a, err := e.activity(data)
	if a.By == "" {
		a.By = shown(e.Source, 128)
	}
	s.Activity = a
	return s, err
}

func (e event) activity(data []byte) (Activity, error) {
	if e.Type == TypeActivity {
		return ParseActivity(data)
	}
	if !isJSON(e.ContentType) {
		return Activity{}, nil
	}
	return whatFits(data), nil
}

func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"))
}

// whatFits takes from data of another type what an Activity has, each field by
// itself.
func whatFits(data []byte) Activity {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return Activity{}
	}
	var out Activity
	for name, to := range map[string]any{
		"ttl": &out.TTL, "released": &out.Released, "intent": &out.Intent, "reason": &out.Reason, "by": &out.By,
		"run_id": &out.RunID, "action": &out.Action,
	} {
		if raw, ok := fields[name]; ok {
			_ = json.Unmarshal(raw, to) // the publisher's own: it need not fit
		}
	}
	out.TTL = max(out.TTL, 0)
	out, _ = out.checked() // which refuses a negative ttl alone
	return out
}
