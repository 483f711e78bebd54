package recording

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// A line that is read in one pass is read as encoding/json does.
func FuzzParseOwn(f *testing.F) {
	for _, line := range []string{
		`[0.000001,"o","a\u001b[0m\r\n"]`, `[12.5,"o","x"]`, `[1.000000,"o64","/w=="]`, `[01.000000,"o","x"]`, `[1.000000,"o","\ud83d\ude00 ü 漢"]`, `[1.000000,"o","\u2028\/"]`,
		`[1.000000,"o","a"b"]`, `[1.000000,"o",5]`, `[1.000000,"o","x",1]`, "[1.000000,\"o\",\"\x01\"]", "[1.000000,\"o\",\"\xff\"]", `[1.000000,"o","\x"]`, `[999999999.999999,"o",""]`, `[1.000000, "o","x"]`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) { sameLine(t, line) })
}

func sameLine(t *testing.T, line []byte) (own bool) {
	t.Helper()
	after, code, text, own := parseOwn(line)
	if !own {
		return false
	}
	wantAfter, want, ok, err := parseJSON(line)
	got, gotErr := eventOf(code, text)
	if (err == nil) != (gotErr == nil) || err == nil && (!ok || after != wantAfter || !reflect.DeepEqual(got, want)) {
		t.Errorf("%q is %s, %+v, %v; want %s, %+v, %v, %v", line, after, got, gotErr, wantAfter, want, ok, err)
	}
	return true
}

// All lines that are written are read in one pass.
func TestOwnLinesAreReadInOnePass(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"plain text ", "\x1b[31m", "\r\n", "\"", "\\", "ü", "漢字", "😀", "\u2028", "<&>", "\x00", "\x7f", "\xff\xfe", "\t"}
	for range 2000 {
		var data []byte
		for range random.IntN(12) {
			data = append(data, pieces[random.IntN(len(pieces))]...)
		}
		var b bytes.Buffer
		code := []Code{Output, Input, Frame, Exit}[random.IntN(4)]
		if err := appendLine(&b, time.Duration(random.Int64N(1e15)), code, data); err != nil {
			t.Fatal(err)
		}
		if line := bytes.TrimSuffix(b.Bytes(), []byte("\n")); !sameLine(t, line) {
			t.Errorf("%q isn't read in one pass", line)
		}
	}
}

// BenchmarkParseLine reads a line with 4 KiB of output.
func BenchmarkParseLine(b *testing.B) {
	var data, line bytes.Buffer
	for n := 0; data.Len() < 4<<10; n++ {
		fmt.Fprintf(&data, "\x1b[32m[%3d%%]\x1b[0m Building some/file_%d.o\r\n", n%100, n)
	}
	if err := appendLine(&line, time.Second, Output, data.Bytes()); err != nil {
		b.Fatal(err)
	}
	text := bytes.TrimSuffix(line.Bytes(), []byte("\n"))
	for name, parse := range map[string]func([]byte) (time.Duration, Event, bool, error){"own": parseLine, "json": parseJSON} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(data.Len()))
			for b.Loop() {
				if _, _, ok, err := parse(text); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
