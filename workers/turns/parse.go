package turns

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// DefaultLimits are two operations for each core that this process may use, four at least,
// and a budget of 1 GiB.
func DefaultLimits() Limits {
	return Limits{Count: max(4, 2*runtime.GOMAXPROCS(0)), Bytes: 1 << 30}
}

// ParseLimits reads what a person wrote: "count=4,memory=1G", either of them alone, or
// nothing, in place of DefaultLimits. A count or memory of 0 bounds nothing.
func ParseLimits(s string) (Limits, error) {
	l := DefaultLimits()
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "count":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return l, fmt.Errorf("operations %q: count: want a number of operations, 0 for no limit", part)
			}
			l.Count = n
		case "memory":
			n, err := schemas.ParseBytes(value)
			if err != nil {
				return l, fmt.Errorf("operations %q: memory: %w", part, err)
			}
			l.Bytes = int64(n)
		default:
			return l, fmt.Errorf("operations %q: want count=… or memory=…", part)
		}
	}
	return l, nil
}
