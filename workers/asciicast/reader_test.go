package asciicast

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// read gives a recording in one text.
func read(from io.Reader) (string, error) {
	r, err := NewReader(from)
	if err != nil {
		return "", err
	}
	h := r.Header()
	text := fmt.Sprintf("%d %dx%d", h.Version, h.Cols, h.Rows)
	if !h.Began.IsZero() {
		text += " " + h.Began.Format(time.RFC3339)
	}
	for text += h.Title; ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return text, err
		}
		text += fmt.Sprintf("|%v %s %s", e.After, e.Kind, e.Data)
	}
}

const (
	head2 = `{"version":2,"width":80,"height":24}` + "\n"
	head3 = `{"version":3,"term":{"cols":80,"rows":24}}` + "\n"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		head2: "2 80x24",
		`{"version":2,"width":100,"height":30,"timestamp":1777863721.9,"title":" t","env":{"SHELL":"/bin/sh"},"idle_time_limit":2}`: "2 100x30 2026-05-04T03:02:01Z t",
		`{"version":3,"term":{"cols":100,"rows":30,"type":"xterm","theme":{"fg":"#fff"}},"timestamp":1777863721,"tags":["a"]}`:      "3 100x30 2026-05-04T03:02:01Z",
		head2 + `[0.5,"o","a"]` + "\n" + `[2, "o", "\u00fc\n"]`:                                                                     "2 80x24|500ms o a|2s o ü\n",
		head2 + `[5,"o","a"]` + "\n" + `[4,"o","b"]` + "\n" + `[-1,"o","c"]` + "\n" + `[6,"o","d"]`:                                 "2 80x24|5s o a|5s o b|5s o c|6s o d",
		head3 + `[5,"o","a"]` + "\r\n\r\n# a comment\n" + `[4,"i","b"]` + "\n" + `[0.000001,"x","0"]` + "\n":                        "3 80x24|5s o a|9s i b|9.000001s x 0",
		head3 + `[1,"later",{"a":[1]}]` + "\n" + `[1,"m",""]` + "\n" + `[1,"r","90x20","more"]` + "\n":                              "3 80x24|2s m |3s r 90x20",
		"\xef\xbb\xbf# first\n" + head3 + `[1,"o","` + "a\xff\xc3" + `b"]` + "\n" + `[0,"o","\ud800"]`:                              "3 80x24|1s o a\ufffd\ufffdb|1s o \ufffd",
		head3 + `[1e-9,"o","a"]` + "\n" + `[1E2,"k","80x24\nforged"]` + "\n" + `[0,"g","5"]` + "\n" + `[0,"o","b"]`:                 "3 80x24|0s o a|1m40s o b",
	} {
		for _, cut := range []int{1, 1 << 20} {
			if got, err := read(&small{strings.NewReader(text), cut}); got != want || err != nil {
				t.Errorf("%q, in pieces of %d, is %q, %v; want %q", text, cut, got, err, want)
			}
		}
	}
}

// What an event has beside the three takes no memory: a line may have millions of that.
func TestManyParts(t *testing.T) {
	const parts = 100000
	line := []byte(`[1,"o","a"` + strings.Repeat(",1", parts) + "]")
	var r Reader
	took := testing.AllocsPerRun(1, func() {
		if e, known, err := r.event(line); e.Data != "a" || !known || err != nil {
			t.Errorf("it is %+v, %t, %v", e, known, err)
		}
	})
	if took > parts/100 {
		t.Errorf("it takes %v allocations", took)
	}
}

// small reads in small pieces.
type small struct {
	from io.Reader
	most int
}

func (s *small) Read(p []byte) (int, error) { return s.from.Read(p[:min(len(p), s.most)]) }

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":        "line 1: the file is empty",
		"\n\n#\n": "line 1: the file is empty",
		"{":       "line 1: no header",
		"[]":      "line 1: no header", "\x00\x01\x02": "line 1: no header", "#!/bin/sh\necho": "line 2: no header",
		`{"version":1,"width":80,"height":24,"stdout":[]}`: "line 1: version 1",
		`{"version":4}`: "line 1: version 4", `{}`: "line 1: version 0", `{"version":"2"}`: "line 1: no header",
		`{"version":2,"width":0,"height":24}`: "a terminal of 0 columns", `{"version":2,"width":80,"height":70000}`: "a terminal of 80 columns and 70000 rows",
		`{"version":3,"width":80,"height":24}`:                  "a terminal of 0 columns",
		`{"version":2,"width":80,"height":24,"timestamp":-1}`:   "a timestamp",
		`{"version":2,"width":80,"height":24,"timestamp":1e99}`: "a timestamp",
		head2 + "junk": "line 2: no event", head2 + "{}": "line 2: no event", head2 + `[1,"o"]`: "line 2: no event",
		head2 + `["1","o","a"]`: "is no time", head2 + `[1e300,"o","a"]`: "is no time", head2 + `[1e999,"o","a"]`: "is no time",
		head2 + `[1,2,"a"]`: "no kind", head2 + `[1,"o",2]`: "no text", head2 + `[1,"o",null]`: "no text",
		head3 + `[1,"o","a"]` + "\n" + `[-1,"o","a"]`:   "line 3: \"-1\" is no time since",
		head3 + `[9e8,"o","a"]` + "\n" + `[9e8,"o",""]`: "longer than 30 years",
		head3 + `[1,"o","a"]` + "\n" + `[1,"o","cut`:    "line 3: no event",
		head3 + strings.Repeat("[", 100000):             "line 2: no event",
	} {
		_, err := read(strings.NewReader(text))
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

// A line without an end is refused before it takes all memory, and the error of the source is kept.
func TestBounds(t *testing.T) {
	r := io.MultiReader(strings.NewReader(head2+`[1,"o","`), io.LimitReader(endless{}, 1<<40))
	if _, err := read(r); err == nil || !strings.Contains(err.Error(), "line 2: it has more than 16 MiB") {
		t.Errorf("a line without an end: %v", err)
	}
	if _, err := read(io.MultiReader(strings.NewReader(head2+`[1,"o"`), broken{})); !errors.Is(err, errBroken) {
		t.Errorf("a source that breaks: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// No bytes break the reader, and its times never run backwards.
func FuzzReader(f *testing.F) {
	f.Add([]byte(head2 + `[1,"o","a"]` + "\n" + `[0,"r","80x24"]`))
	f.Add([]byte(head3 + `[1,"o","a"]` + "\n#\n" + `[1e5,"x","1"]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		for last := time.Duration(0); ; {
			e, err := r.Next()
			if err != nil {
				return
			}
			if e.After < last {
				t.Errorf("%v after %v", e.After, last)
			}
			last = e.After
		}
	})
}
