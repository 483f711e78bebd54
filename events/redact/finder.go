package redact

import "bytes"

// A Finder looks at so much text at once, and at so much of it once more with what follows: what is longer than that may be
// found in part.
const (
	most    = 256 << 10
	overlap = 16 << 10
)

// Finder finds what is to be taken out of what a terminal was sent. It is for one goroutine, and takes some MiB at most.
type Finder struct {
	match Matcher
	found func(r Range, begins bool)
	scan  scanner
}

// NewFinder makes a Finder of bytes from position 0 on. found is called with where something is to be taken out, in any order, and
// maybe more than once: for one match with all the ranges that its text is in, of which the first says that one begins.
func NewFinder(match Matcher, found func(r Range, begins bool)) *Finder {
	return &Finder{match: match, found: found}
}

// Write takes what comes next.
func (f *Finder) Write(b []byte) {
	for len(b) > 0 {
		n := min(len(b), most/4)
		f.scan.write(b[:n])
		b = b[n:]
		for _, l := range []*lane{&f.scan.lines, &f.scan.flat, &f.scan.strings} {
			if len(l.text) >= most {
				f.look(l)
				l.forget()
			}
		}
	}
}

// End says that nothing follows. A string that isn't complete is looked at, too.
func (f *Finder) End() {
	if len(f.scan.raw) > 0 {
		f.scan.endString()
	}
	for _, l := range []*lane{&f.scan.lines, &f.scan.flat, &f.scan.strings} {
		f.look(l)
		*l = lane{}
	}
}

// look finds what is in a lane. One that is the same as the other isn't looked at.
func (f *Finder) look(l *lane) {
	if l == &f.scan.flat && !l.differs {
		return
	}
	for _, r := range f.match(l.text) {
		l.where(r, f.found)
	}
}

// forget drops all but the end, which begins with a line if it can.
func (l *lane) forget() {
	from := len(l.text) - overlap
	if n := bytes.IndexByte(l.text[from:from+overlap/2], '\n'); n >= 0 {
		from += n + 1
	}
	l.text = append(l.text[:0], l.text[from:]...)
	l.at = append(l.at[:0], l.at[from:]...)
}
