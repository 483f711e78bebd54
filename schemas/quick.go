package schemas

import (
	"bytes"
	"time"
)

// quickText is the longest text that the quick way takes: none of what is for people is
// cut at less.
const quickText = 32

// quickly reads an activity as most publishers write it: a flat object of short texts
// without escapes. A scheduler reads a hundred thousand of them a second. ok is false for
// anything else, which encoding/json then reads.
func quickly(data []byte, a *Activity) (ok bool) {
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return false
	}
	rest := data[1 : len(data)-1]
	for len(rest) > 0 {
		var key, value []byte
		if key, rest, ok = quickString(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return false
		}
		rest = rest[1:]
		if string(key) == "released" && bytes.HasPrefix(rest, []byte("true")) {
			a.Released, rest = true, rest[len("true"):]
		} else {
			if value, rest, ok = quickString(rest); !ok || !a.quickField(string(key), string(value)) {
				return false
			}
		}
		if len(rest) == 0 {
			return true
		}
		if rest[0] != ',' || len(rest) == 1 {
			return false
		}
		rest = rest[1:]
	}
	return true
}

// quickString reads a text in quotes.
func quickString(data []byte) (text, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(data[1:], '"')
	if end < 0 || end > quickText {
		return nil, nil, false
	}
	text = data[1 : 1+end]
	for _, c := range text {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, nil, false
		}
	}
	return text, data[end+2:], true
}

func (a *Activity) quickField(key, value string) bool {
	switch key {
	case "ttl":
		d, err := time.ParseDuration(value)
		a.TTL = Duration(d)
		return err == nil && d >= 0
	case "intent":
		a.Intent = value
	case "reason":
		a.Reason = value
	case "by":
		a.By = value
	case "run_id":
		a.RunID = value
	case "action":
		a.Action = value
	default:
		return false
	}
	return true
}
