package screen

// enquiry is the control character that a terminal answers with its name.
const enquiry = 0x05

// Filter takes what a terminal answers out of the output of a program, and holds back what isn't complete.
type Filter struct {
	parser parser
	out    []byte
}

// NewFilter makes a Filter of what comes from a position on. dropped is what a Screen said there.
func NewFilter(at int64, dropped byte) *Filter {
	f := &Filter{}
	f.parser.resume(at, dropped)
	return f
}

// Write takes more output. What it returns is complete, and valid until the next call.
func (f *Filter) Write(p []byte) []byte {
	f.out = f.out[:0]
	f.parser.feed(p, f)
	return f.out
}

// Offset is the position up to which Write has returned everything.
func (f *Filter) Offset() int64 { return f.parser.offset() }

func (f *Filter) plain(p []byte) { f.out = append(f.out, p...) }

func (f *Filter) char(_ rune, raw []byte) { f.out = append(f.out, raw...) }

func (f *Filter) control(b byte) {
	if b != enquiry {
		f.out = append(f.out, b)
	}
}

func (f *Filter) sequence(q *sequence) {
	if q.asks() {
		return
	}
	if q.opened != 0 && q.opened != '[' {
		f.out = append(append(f.out, q.raw...), esc, '\\')
		return
	}
	f.out = append(f.out, esc)
	for _, b := range q.raw[1:] {
		if b >= 0x20 { // control has had the others
			f.out = append(f.out, b)
		}
	}
}
