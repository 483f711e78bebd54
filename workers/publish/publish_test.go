package publish

import (
	"testing"
)

func TestParse(t *testing.T) {
	for word, want := range map[string]string{
		"8080:80":           "127.0.0.1:8080:80",
		"0.0.0.0:8080:80":   "0.0.0.0:8080:80",
		"[::1]:8080:80":     "[::1]:8080:80",
		"::1:8080:80":       "[::1]:8080:80",
		"80":                "",
		":80":               "",
		"8080:":             "",
		"0:80":              "",
		"8080:0":            "",
		"65536:80":          "",
		"8080:80/udp":       "",
		"localhost:8080:80": "",
		"127.0.0.1:80":      "",
		":8080:80":          "",
		"":                  "",
	} {
		got, err := Parse([]string{word})
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is read as %v", word, got)
		case want != "" && (err != nil || got[0].String() != want):
			t.Errorf("%q is read as %v, %v, want %s", word, got, err, want)
		}
	}
	if _, err := Parse(make([]string, most+1)); err == nil {
		t.Error("any number of ports is read")
	}
}

// A port that is taken leaves none of the others taken.
func TestListenTakesAllOrNone(t *testing.T) {
	const first, second = "127.0.61.7:18080:80", "127.0.61.7:18081:80"
	taken, err := Listen([]string{second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen([]string{first, second}); err == nil {
		t.Fatal("a port is taken twice")
	}
	taken.Close()
	again, err := Listen([]string{first, second})
	if err != nil {
		t.Fatalf("after a failure a port is still taken: %v", err)
	}
	again.Close()
}
