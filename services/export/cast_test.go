package export

import (
	"errors"
	"strings"
	"testing"
)

// Of a part of a recording it is shown first what the terminal showed when that began, if it is known.
func TestCastOfAPart(t *testing.T) {
	const from = `{"time":"2026-05-04T03:02:03Z","at":0,"code":"from"}
`
	const before = `{"time":"2026-05-04T03:02:01Z","at":5,"code":"k","text":"30x4\n\u001b[H\u001b[2Jfra"}
{"time":"2026-05-04T03:02:01Z","at":5,"code":"k","text":"me"}
{"time":"2026-05-04T03:02:02Z","at":5,"code":"o","text":" seen"}
`
	const after = `{"time":"2026-05-04T03:02:04Z","at":10,"code":"o","text":"!"}
{"time":"2026-05-04T03:02:02Z","at":11,"code":"o","text":"?"}
`
	write := func(events string) string {
		var out strings.Builder
		w := newCast(&out)
		if err := errors.Join(Each(strings.NewReader(events), w.Event), w.End()); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	got := strings.SplitAfter(write(from+before+after), "\n")
	const head = `{"version":3,"term":{"cols":30,"rows":4},"timestamp":1777863724,"idle_time_limit":2}
`
	if len(got) != 6 || got[0] != head || got[1] != `[0.000000,"r","30x4"]`+"\n" || !strings.Contains(got[2], "frame seen") || got[3] != `[0.000000,"o","!"]`+"\n" || got[4] != `[0.000000,"o","?"]`+"\n" {
		t.Errorf("it is %q", got)
	}
	for events, want := range map[string]string{
		from:                        "",
		from + before:               "",
		from + after:                strings.Replace(head, `30,"rows":4`, `80,"rows":24`, 1) + `[0.000000,"o","!"]` + "\n" + `[0.000000,"o","?"]` + "\n",
		from + before[148:] + after: strings.Replace(head, `30,"rows":4`, `80,"rows":24`, 1) + `[0.000000,"o","!"]` + "\n" + `[0.000000,"o","?"]` + "\n",
	} {
		if got := write(events); got != want {
			t.Errorf("of %s it is %q, want %q", events, got, want)
		}
	}
	if !Framed(Asciicast) || Framed(JSONLines) {
		t.Error("it gets no frame")
	}
}

func TestCast(t *testing.T) {
	events := `{"time":"2026-05-04T03:02:01Z","at":0,"code":"r","text":"100x30"}
{"time":"2026-05-04T03:02:01.5Z","at":0,"code":"o","text":"a <ü>\u001b[0m"}
{"time":"2026-05-04T03:02:01.2Z","at":8,"code":"o","base64":"Yf8="}
{"time":"2026-05-04T03:02:03.000001Z","at":10,"code":"e","text":"hook"}
{"time":"2026-05-04T03:02:04Z","at":14,"code":"g","text":"12"}
{"time":"2026-05-04T03:02:04Z","at":26,"code":"k","text":"90x20\nfra"}
{"time":"2026-05-04T03:02:04Z","at":26,"code":"k","text":"me"}
{"time":"2026-05-04T03:02:04Z","at":26,"code":"o","text":"!"}
{"time":"2026-05-04T03:02:04Z","at":27,"code":"k","text":"90x20\nknown"}
{"time":"2026-05-04T03:02:04Z","at":27,"code":"later"}
{"time":"2026-05-04T03:02:05Z","at":27,"code":"x","text":"3"}
`
	const want = `{"version":3,"term":{"cols":100,"rows":30},"timestamp":1777863721,"idle_time_limit":2}
[0.000000,"r","100x30"]
[0.500000,"o","a <ü>\u001b[0m"]
[0.000000,"o","a�"]
[1.500001,"o","hook"]
[0.999999,"m","12 bytes were not recorded"]
[0.000000,"r","90x20"]
[0.000000,"o","fra"]
[0.000000,"o","me"]
[0.000000,"o","!"]
[1.000000,"x","3"]
`
	var out strings.Builder
	if err := Each(strings.NewReader(events), newCast(&out).Event); err != nil || out.String() != want {
		t.Errorf("it is\n%s, %v, want\n%s", out.String(), err, want)
	}
	if err := Each(strings.NewReader("{"), newCast(&out).Event); err == nil {
		t.Error("what is no event is taken for one")
	}
}
