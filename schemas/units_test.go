package schemas

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"20s": 20 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day, "1.5d": 36 * time.Hour, "1w2d": 9 * day,
		"1d12h": 36 * time.Hour, "0": 0, "0d": 0, "-1d": -day, "-1d1h": -25 * time.Hour, "250ms": 250 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
		var d Duration
		if err := json.Unmarshal([]byte(`"`+text+`"`), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%q in JSON is %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "d", "w", "x", "7", "7x", "1d2", "1d-2h", "1d+2h", "1e3d", "infd", "nand", "2d1w", "--1d", "200000d", "1d d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "512": 512, "64k": 64 << 10, "500M": 500 << 20, "1.5g": 3 << 29, "10G": 10 << 30, "10GB": 10 << 30, "10GiB": 10 << 30, "2T": 2 << 40, "7b": 7,
	} {
		got, err := ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "G", "B", "-1", "+1", "1e3", "nan", "infK", "0x1p62", "8388608T", "1 Q", "1GG", "1iB2"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is %d; want an error", text, got)
		}
	}
}
