package image

import "testing"

func TestParseBudget(t *testing.T) {
	for s, want := range map[string]Budget{
		"": {}, "live=40%": {MinLive: 0.4}, "packs=8": {MaxPacks: 8}, "live=12.5%,packs=256": {MinLive: 0.125, MaxPacks: 256},
	} {
		if b, err := ParseBudget(s); err != nil || b != want {
			t.Errorf("%q is %+v, %v; want %+v", s, b, err, want)
		}
	}
	for _, s := range []string{"live", "live=40", "live=0%", "live=100%", "live=NaN%", "packs=0", "packs=-1", "packs=9999", "packs=1.5", "age=7d"} {
		if b, err := ParseBudget(s); err == nil {
			t.Errorf("%q is %+v, want an error", s, b)
		}
	}
}
