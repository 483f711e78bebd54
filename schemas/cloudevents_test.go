package schemas

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestCloudEvents(t *testing.T) {
	binary := map[string][]string{"ce-specversion": {"1.0"}, "Ce-Id": {"1"}, "CE-Source": {"/my%20shop"}, "ce-type": {TypeActivity}, "ce-time": {"2026-01-02T03:04:05Z"}}
	foreign := map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"com.example.key"}, "content-type": {"text/plain"}}
	structured := map[string][]string{"Content-Type": {"application/cloudevents+json; charset=utf-8"}}
	for _, test := range []struct {
		name   string
		header map[string][]string
		data   string
		want   Activity
		kind   string // of the event; "" if it came without an envelope
	}{
		{"nothing", nil, ``, Activity{}, ""},
		{"plain", nil, `{"ttl":"20s","by":"me"}`, Activity{TTL: Duration(20 * time.Second), By: "me"}, ""},
		{"other headers", map[string][]string{"Content-Type": {"application/json"}, "Nats-TTL": {"60"}}, `{"released":true}`, Activity{Released: true}, ""},
		{"binary", binary, `{"ttl":5}`, Activity{TTL: Duration(5 * time.Second), By: "/my shop"}, TypeActivity},
		{"binary, empty", binary, ``, Activity{By: "/my shop"}, TypeActivity},
		{"foreign text", foreign, `hello`, Activity{By: "s"}, "com.example.key"},
		{"structured", structured, `{"specversion":"1.0","id":"1","source":"s","type":"diapause.activity","data":{"intent":"reconnect","by":"x"}}`,
			Activity{Intent: "reconnect", By: "x"}, TypeActivity},
		{"structured without a header", nil, `{"specversion":"1.0","id":"1","source":"s","type":"diapause.activity","datacontenttype":"application/json","data":{"ttl":"1m"}}`,
			Activity{TTL: Duration(time.Minute), By: "s"}, TypeActivity},
		{"structured without data", nil, `{"specversion":"1.0","id":"1","source":"s","type":"t"}`, Activity{By: "s"}, "t"},
		{"base64", structured, `{"specversion":"1.0","id":"1","source":"s","type":"diapause.activity","data_base64":"eyJ0dGwiOiIxbSJ9"}`,
			Activity{TTL: Duration(time.Minute), By: "s"}, TypeActivity},
		{"data of another type", structured, `{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"ttl":[1],"released":"maybe","reason":"a build","intent":null,"x":{}}}`,
			Activity{Reason: "a build", By: "s"}, "t"},
		{"a negative ttl of another type", structured, `{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"ttl":-5}}`, Activity{By: "s"}, "t"},
		{"a list of another type", structured, `{"specversion":"1.0","id":"1","source":"s","type":"t","data":[1,2]}`, Activity{By: "s"}, "t"},
	} {
		got, err := ParseMessage(test.header, []byte(test.data))
		if err != nil || got.Activity != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.name, got.Activity, err, test.want)
		}
		if kind := ""; got.Event != nil || test.kind != "" {
			if got.Event != nil {
				kind = got.Event.Type
			}
			if kind != test.kind {
				t.Errorf("%s: an event of type %q, want %q", test.name, kind, test.kind)
			}
		}
	}
	if got, _ := ParseMessage(binary, nil); got.Event == nil || got.Event.Time.Year() != 2026 {
		t.Errorf("the event says %+v, want its time", got.Event)
	}
}

func TestHostileMessages(t *testing.T) {
	binary := func(change ...string) map[string][]string {
		h := map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {TypeActivity}}
		for i := 0; i < len(change); i += 2 {
			h[change[i]] = []string{change[i+1]}
		}
		return h
	}
	cloud := map[string][]string{"Content-Type": {"application/cloudevents+json"}}
	for _, test := range []struct {
		name   string
		header map[string][]string
		data   string
		want   error
	}{
		{"a list", nil, `[]`, ErrPayload},
		{"text", nil, `hello`, ErrPayload},
		{"half", nil, `{"ttl":`, ErrPayload},
		{"negative", nil, `{"ttl":-1}`, ErrPayload},
		{"a lease for ever", nil, `{"ttl":1e300}`, ErrPayload},
		{"a deep one", nil, strings.Repeat("[", 15000), ErrPayload},
		{"a large one", nil, strings.Repeat(" ", MaxActivity+1), ErrTooBig},
		{"another version", binary("ce-specversion", "0.3"), ``, ErrPayload},
		{"no id", binary("ce-id", ""), ``, ErrPayload},
		{"no source", binary("ce-source", ""), ``, ErrPayload},
		{"no type", binary("ce-type", ""), ``, ErrPayload},
		{"bad time", binary("ce-time", "yesterday"), ``, ErrPayload},
		{"our type with bad data", binary(), `{"ttl":"x"}`, ErrPayload},
		{"structured, empty", cloud, ``, ErrPayload},
		{"structured, a batch", map[string][]string{"Content-Type": {"application/cloudevents-batch+json"}}, `[{"specversion":"1.0"}]`, ErrPayload},
		{"structured, no version", cloud, `{"id":"1","source":"s","type":"t"}`, ErrPayload},
		{"structured, version a number", nil, `{"specversion":1.0,"id":"1","source":"s","type":"t"}`, ErrPayload},
		{"structured, bad base64", cloud, `{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"%%"}`, ErrPayload},
	} {
		if got, err := ParseMessage(test.header, []byte(test.data)); !errors.Is(err, test.want) {
			t.Errorf("%s: %+v, %v, want %v", test.name, got, err, test.want)
		}
	}
}

func TestTextIsFitToBeShown(t *testing.T) {
	a, err := ParseActivity([]byte(`{"reason":"\u001b[2Jgone\nTRUST \u202eme` + strings.Repeat("ä", 300) + `","by":"\u0000root"}`))
	if err != nil || !strings.HasPrefix(a.Reason, "[2JgoneTRUST meää") || a.By != "root" {
		t.Errorf("%q by %q, %v", a.Reason, a.By, err)
	}
	if len(a.Reason) > 256 || !utf8.ValidString(a.Reason) {
		t.Errorf("a reason of %d bytes, valid %v", len(a.Reason), utf8.ValidString(a.Reason))
	}
}

func TestHostileSubjects(t *testing.T) {
	for subject, want := range map[string]error{
		"": ErrSubject, ".": ErrSubject, "x": ErrSubject, "diapause.v1.activity": ErrSubject, "diapause.v1.activity.": ErrSubject,
		"diapause.v1.activity.a.b": ErrSubject, "diapause.v1.activity.a.b.": ErrKind, "diapause.v1.activity...input": ErrSubject,
		"diapause.v1.activity.a.b.mood": ErrKind, "diapause.v1.activity.a.b.Input": ErrKind,
		"diapause.v1.activity.a.b.input.x": ErrSubject, "diapause.v1.activity.a.b.busy": ErrSubject,
		"diapause.v1.activity.a.b.busy.x.y": ErrSubject, "diapause.v1.activity.a.b.busy.\x1b[2J": ErrSubject,
		"diapause.v1.activity.ä.b.input":                                    ErrSubject,
		"diapause.v1.activity." + strings.Repeat("a", 65) + ".b.input":      ErrSubject,
		"diapause.v1.activity.a.b.hold." + strings.Repeat("x", 129):         ErrSubject,
		"diapause.v1.stored.a.b.input":                                      ErrSubject,
		"diapause.v1.command.host.a.b":                                      ErrSubject,
		"diapause.v1.activity.a.b.presence." + strings.Repeat("\u202e", 10): ErrSubject,
	} {
		if s, err := ParseActivitySubject(subject); !errors.Is(err, want) {
			t.Errorf("%q: %+v, %v, want %v", subject, s, err, want)
		}
	}
	for _, subject := range []string{"diapause.v1.activity.a.b.input", "diapause.v1.stored.7.a.b.busy.cpu", "diapause.v1.activity.a.b.hold.ci/job#1:2"} {
		if _, err := ParseActivitySubject(subject); err != nil {
			t.Errorf("%q: %v", subject, err)
		}
	}
}

// A door's mark is never read as the key of a lease that has none: nothing would tell it from a lease with
// credentials.
func TestMarkIsNoKey(t *testing.T) {
	for subject, want := range map[string]string{
		"diapause.v1.activity.a.b.busy":                     "diapause.v1.activity.a.b.busy",
		"diapause.v1.activity.a.b.agent":                    "diapause.v1.activity.a.b.agent",
		"diapause.v1.activity.a.b.busy.~1":                  "diapause.v1.activity.a.b.busy.~1.~7",
		"diapause.v1.activity.a.b.busy." + FromInside:       "diapause.v1.activity.a.b.busy." + FromInside + ".~7",
		"diapause.v1.activity.a.b.busy.build." + FromInside: "diapause.v1.activity.a.b.busy.build.~7" + FromInside,
		"diapause.v1.activity.a.b.mood":                     "diapause.v1.activity.a.b.mood.~7",
		"diapause.v1.activity.a.b.input":                    "diapause.v1.activity.a.b.input.~7",
	} {
		if got := Marked(subject, FromUser(7)); got != want {
			t.Errorf("%s is marked %s, want %s", subject, got, want)
		}
	}
	for _, subject := range []string{"diapause.v1.activity.a.b.busy", "diapause.v1.activity.a.b.hold." + FromEdge, "diapause.v1.activity.a.b.hold." + FromInside} {
		if s, err := ParseActivitySubject(subject); !errors.Is(err, ErrSubject) {
			t.Errorf("%s is read as %+v, %v", subject, s, err)
		}
	}
}

// For any input: no panic, a reason for what is refused, and what is taken is bounded
// and fit to be shown.
func FuzzParseMessage(f *testing.F) {
	f.Add("", "", "", []byte(`{"ttl":"20s","released":true}`))
	f.Add("application/cloudevents+json", "", "", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"ttl":1}}`))
	f.Add("application/json", "1.0", "diapause.activity", []byte(`{"reason":"x"}`))
	f.Add("text/plain", "1.0", "%zz", []byte("\xff"))
	f.Fuzz(func(t *testing.T, contentType, version, kind string, data []byte) {
		h := map[string][]string{"content-type": {contentType}}
		if version != "" {
			h["ce-specversion"], h["ce-id"], h["ce-source"], h["ce-type"] = []string{version}, []string{"1"}, []string{"s"}, []string{kind}
		}
		said, err := ParseMessage(h, data)
		if err != nil {
			if !errors.Is(err, ErrPayload) && !errors.Is(err, ErrTooBig) {
				t.Fatalf("refused without a reason: %v", err)
			}
			return
		}
		if said.TTL < 0 || len(said.Reason) > 256 || len(said.By) > 128 || len(said.Intent) > 32 {
			t.Fatalf("taken: %+v", said)
		}
		for _, text := range []string{said.Reason, said.By, said.Intent} {
			if !utf8.ValidString(text) || text != shown(text, 256) {
				t.Fatalf("%q isn't fit to be shown", text)
			}
		}
	})
}

func FuzzParseActivitySubject(f *testing.F) {
	f.Add("diapause.v1.activity.acme.web-42.input")
	f.Add("diapause.v1.stored.7.acme.web-42.busy.build")
	f.Fuzz(func(t *testing.T, subject string) {
		s, err := ParseActivitySubject(subject)
		if err != nil {
			return
		}
		again, err := ParseActivitySubject(ActivitySubject(s.Name, s.Kind, s.Key))
		if err != nil || again != s {
			t.Fatalf("%q reads as %+v, and that as %+v, %v", subject, s, again, err)
		}
	})
}
