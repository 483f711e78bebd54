package schemas

import (
	"fmt"
	"slices"
	"time"
)

// Share is the right to watch a session's terminal up to a moment, of everyone who has its token. It gives nothing else.
type Share struct {
	ID      string    `json:"id"` // of its token, in `diapause token ls`
	By      string    `json:"by"` // who shared it
	Created time.Time `json:"created"`
	Until   time.Time `json:"until"`
}

// ShareView is a share as clients see it.
type ShareView struct {
	Share
	Watching int `json:"watching"` // how many watch by it now; 0 unless the session runs
}

// ShareMade is the answer to share, which alone has the token.
type ShareMade struct {
	Share
	Token string `json:"token"`
}

// The bounds of shares.
const (
	// MaxShares is how many a session may have at a time.
	MaxShares = 16
	// MaxShareFor is how long one may last.
	MaxShareFor = Duration(30 * 24 * time.Hour)
	minShareFor = Duration(time.Second)
)

// ShareRequest says how long a terminal is shared, or which of its shares end.
type ShareRequest struct {
	For Duration `json:"for,omitempty"` // of share
	// Of unshare: which one, or all; the only one if neither is given.
	ID  string `json:"id,omitempty"`
	All bool   `json:"all,omitempty"`
}

// Validate says what can't be shared.
func (r ShareRequest) Validate() error {
	if r.For < minShareFor || r.For > MaxShareFor {
		return fmt.Errorf("share for %s: want a time from %s to %s", time.Duration(r.For), time.Duration(minShareFor), time.Duration(MaxShareFor))
	}
	return nil
}

// LiveShares gives those of the shares that haven't ended by their time. It changes none of all.
func LiveShares(all []Share, now time.Time) []Share {
	return slices.DeleteFunc(slices.Clone(all), func(s Share) bool { return !now.Before(s.Until) })
}

// ViewShares shows shares, without who watches.
func ViewShares(all []Share) (views []ShareView) {
	for _, s := range all {
		views = append(views, ShareView{Share: s})
	}
	return views
}

// Shared is the session of a share, as far as one who watches it may know.
type Shared struct {
	Share      string      `json:"share"` // its id
	Name       string      `json:"name"`
	UID        UID         `json:"uid"`
	State      State       `json:"state"`
	Host       HostID      `json:"host"` // for the gateway, which connects to it
	Boot       Boot        `json:"boot,omitempty"`
	Generation uint64      `json:"generation"`
	Exit       *ExitStatus `json:"exit,omitempty"`
	Until      time.Time   `json:"until"`
}
