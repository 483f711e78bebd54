package image

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseBudget reads what a person wrote: "live=40%,packs=256", either of them alone,
// or nothing for DefaultBudget. The error says what can't be read.
func ParseBudget(s string) (Budget, error) {
	var b Budget
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "live":
			percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
			if err != nil || !strings.HasSuffix(value, "%") || !(percent > 0 && percent < 100) {
				return b, fmt.Errorf("budget %q: live: want a share like 40%%", part)
			}
			b.MinLive = percent / 100
		case "packs":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxBudgetPacks {
				return b, fmt.Errorf("budget %q: packs: want 1 to %d", part, maxBudgetPacks)
			}
			b.MaxPacks = n
		default:
			return b, fmt.Errorf("budget %q: want live=… or packs=…", part)
		}
	}
	return b, nil
}

// maxBudgetPacks is as many packs as a resume may reasonably touch.
const maxBudgetPacks = 4096
