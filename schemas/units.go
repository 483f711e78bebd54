package schemas

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Errors of ParseDuration and ParseBytes.
var (
	errNoDuration = errors.New("want a duration such as 90s, 20m, 1h30m or 7d")
	errNoSize     = errors.New("want a size such as 500M or 10G")
)

// ParseDuration reads a duration as people write it, in flags, policies and JSON alike:
// the form of time.ParseDuration, where d is a day of 24 hours and w seven of them:
// "20s", "1h30m", "7d", "1.5d", "1w2d".
func ParseDuration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	rest, negative := strings.CutPrefix(s, "-")
	var sum float64 // of days and weeks, in nanoseconds
	for _, unit := range []struct {
		name string
		long time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !decimal(number) {
			return 0, fmt.Errorf("%q: %w", s, errNoDuration)
		}
		sum, rest = sum+n*float64(unit.long), after
	}
	var small time.Duration
	if rest != "" {
		var err error
		if small, err = time.ParseDuration(rest); err != nil || !decimal(rest[:1]) {
			return 0, fmt.Errorf("%q: %w", s, errNoDuration)
		}
	} else if sum == 0 && !strings.ContainsAny(s, "dw") {
		return 0, fmt.Errorf("%q: %w", s, errNoDuration)
	}
	if sum+float64(small) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q: want less than 292 years", s)
	}
	d := time.Duration(sum) + small
	if negative {
		d = -d
	}
	return d, nil
}

// decimal reports whether a number is written with digits and a point alone.
func decimal(number string) bool {
	return number != "" && strings.Trim(number, "0123456789.") == ""
}

var byteUnits = map[string]int{"K": 10, "M": 20, "G": 30, "T": 40}

// ParseBytes reads a size as people write it, in flags, policies and JSON alike: a number
// of bytes, or of K, M, G or T in steps of 1024: "500M", "1.5g", "10GB", "10GiB".
func ParseBytes(s string) (Bytes, error) {
	number, shift := strings.ToUpper(s), 0
	number = strings.TrimSuffix(number, "B")
	for unit, by := range byteUnits {
		if rest, ok := strings.CutSuffix(strings.TrimSuffix(number, "I"), unit); ok {
			number, shift = rest, by
		}
	}
	number = strings.TrimSuffix(number, " ")
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && decimal(number) && n <= math.MaxInt64>>shift {
		return Bytes(n << shift), nil // which a fraction might not be exact for
	}
	f, err := strconv.ParseFloat(number, 64)
	if f *= float64(int64(1) << shift); err != nil || !decimal(number) || !(f < math.MaxInt64) {
		return 0, fmt.Errorf("%q: %w", s, errNoSize)
	}
	return Bytes(f), nil
}
