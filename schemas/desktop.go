package schemas

import (
	"fmt"
	"strconv"
	"strings"
)

// Desktop is the display of a session, which is looked at by VNC.
type Desktop struct {
	Size    string `json:"size"`    // WIDTHxHEIGHT when it began; a viewer may have changed it
	Display string `json:"display"` // for the X clients inside, as in DISPLAY
	Port    uint16 `json:"port"`    // at which its VNC server listens, inside the session
}

// DesktopView is a desktop as clients see it.
type DesktopView struct {
	Desktop
	VNCPort uint16 `json:"vnc_port,omitempty"` // of 127.0.0.1 on its host, which leads to Port while it runs; none if none is published
}

// DesktopRequest has a session be a desktop. The command of its spec is the application on it, unless App names one.
type DesktopRequest struct {
	Size string `json:"size,omitempty" doc:"WIDTHxHEIGHT in pixels; 1280x800 if empty"`
	App  string `json:"app,omitempty" enum:"firefox,chromium,xterm" doc:"In place of spec.command: an application that is started so that it can be suspended"`
	// VNCPort is the port of the host. It is chosen if it is 0: one that no session has.
	VNCPort     uint16 `json:"vnc_port,omitempty" doc:"Of the host's 127.0.0.1; chosen if it isn't given"`
	Unpublished bool   `json:"unpublished,omitempty" doc:"No port of the host leads to it, as without a token of an operator"`
}

// The usual size of a desktop, and bounds of both sides, in pixels.
const (
	DesktopSize   = "1280x800"
	MinDesktop    = 64
	MaxDesktop    = 8192
	desktopHost   = "127.0.0.1"
	DesktopVNC    = 5900 // the Port of every Desktop
	DesktopScreen = ":1" // likewise its Display
)

// ParseDesktopSize reads WIDTHxHEIGHT.
func ParseDesktopSize(text string) (width, height int, err error) {
	w, h, both := strings.Cut(text, "x")
	width, errW := strconv.Atoi(w)
	height, errH := strconv.Atoi(h)
	if !both || errW != nil || errH != nil || min(width, height) < MinDesktop || max(width, height) > MaxDesktop {
		return 0, 0, fmt.Errorf("size %.40q: want WIDTHxHEIGHT, from %d to %d", text, MinDesktop, MaxDesktop)
	}
	return width, height, nil
}

// PublishedAt says how a port of this host's loopback leads to a desktop.
func (d Desktop) PublishedAt(port uint16) string {
	return fmt.Sprintf("%s:%d:%d", desktopHost, port, d.Port)
}

// Published gives the port of the host's loopback that leads to a desktop, of all that its session publishes; 0 if none
// does.
func (d Desktop) Published(all []string) uint16 {
	for _, word := range all {
		parts := strings.Split(word, ":")
		if n := len(parts); n < 2 || n > 3 || n == 3 && parts[0] != desktopHost || parts[n-1] != strconv.Itoa(int(d.Port)) {
			continue // an address of IPv6 has more
		}
		if port, err := strconv.ParseUint(parts[len(parts)-2], 10, 16); err == nil {
			return uint16(port)
		}
	}
	return 0
}

// ViewDesktop shows the desktop of a session, nil if it has none.
func ViewDesktop(d *Desktop, published []string) *DesktopView {
	if d == nil {
		return nil
	}
	return &DesktopView{*d, d.Published(published)}
}
