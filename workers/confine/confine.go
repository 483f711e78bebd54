package confine

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/confine/limits"
)

// Of gives the limits of a session. An error says what of the spec is wrong.
func Of(s schemas.Spec) (limits.Limits, error) {
	l := limits.Limits{Capabilities: common, NoNewPrivs: s.NoNewPrivs}
	if private(s) {
		l.Capabilities |= 1 << unix.CAP_NET_RAW
	}
	for _, list := range []struct {
		names []string
		apply func(mask uint64)
	}{
		// In Docker's order: what is dropped can be added.
		{s.CapDrop, func(m uint64) { l.Capabilities &^= m }},
		{s.CapAdd, func(m uint64) { l.Capabilities |= m }},
	} {
		for _, name := range list.names {
			mask, err := capability(name)
			if err != nil {
				return l, err
			}
			list.apply(mask)
		}
	}
	var err error
	l.Filter, err = filter(s.Seccomp, l.Capabilities)
	return l, err
}

// private reports whether the session's network is its own.
func private(s schemas.Spec) bool { return s.Network == "none" || s.Network == "private" }

// filter gives the filter of a profile for processes with these capabilities.
func filter(profile string, capabilities uint64) ([]byte, error) {
	if profile == schemas.Unconfined {
		return nil, nil
	}
	rules, err := load(profile, capabilities)
	if err != nil {
		return nil, fmt.Errorf("read the seccomp profile: %w", err)
	}
	code, err := compile(rules)
	if err != nil {
		return nil, fmt.Errorf("compile the seccomp profile: %w", err)
	}
	return code, nil
}
