package export

import (
	"strings"
	"testing"
)

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
