package screen

// change carries out CSI m.
func (p *pen) change(params []param) {
	if len(params) == 0 {
		params = []param{{}}
	}
	for i := 0; i < len(params); {
		n := i + 1
		for n < len(params) && params[n].below {
			n++
		}
		at := max(params[i].n, 0)
		switch at {
		case 38, 48, 58:
			c, used, ok := colorOf(params[i+1:n], params[i+1:])
			n = max(n, i+1+used)
			if ok {
				p.dye(at, c)
			}
		default:
			p.attribute(at, params[i+1:n])
		}
		i = n
	}
}

func (p *pen) dye(at int, c color) {
	switch at {
	case 38:
		p.fore = c
	case 48:
		p.back = c
	case 58:
		p.line = c
	}
}

// colorOf reads a colour: from what colons join, else from the parameters that follow, of which it uses some.
func colorOf(below, after []param) (c color, used int, ok bool) {
	if len(below) > 0 {
		at := func(i int) int { return max(below[i].n, 0) }
		switch {
		case at(0) == 5 && len(below) >= 2:
			return indexed | color(at(1)&0xff), 0, true
		case at(0) == 2 && len(below) == 4:
			return rgb(at(1), at(2), at(3)), 0, true
		case at(0) == 2 && len(below) > 4: // with a colour space
			return rgb(at(2), at(3), at(4)), 0, true
		}
		return 0, 0, false
	}
	at := func(i int) int { return max(after[i].n, 0) }
	switch {
	case len(after) >= 2 && at(0) == 5:
		return indexed | color(at(1)&0xff), 2, true
	case len(after) >= 4 && at(0) == 2:
		return rgb(at(1), at(2), at(3)), 4, true
	}
	return 0, len(after), false
}

func rgb(r, g, b int) color { return direct | color(min(r, 255)<<16|min(g, 255)<<8|min(b, 255)) }

// switched are the attributes that one number switches on.
var switched = map[int]flags{1: bold, 2: faint, 3: italic, 5: blink, 6: blink, 7: inverse, 8: hidden, 9: struck, 53: overlined}

// ended are those that one number switches off.
var ended = map[int]flags{22: bold | faint, 23: italic, 24: underlineMask, 25: blink, 27: inverse, 28: hidden, 29: struck, 55: overlined}

func (p *pen) attribute(n int, below []param) {
	switch {
	case n == 0:
		*p = pen{link: p.link}
	case n == 4 && len(below) > 0:
		p.underline(max(below[0].n, 0))
	case n == 4:
		p.underline(1)
	case n == 21:
		p.underline(2)
	case n >= 30 && n <= 37:
		p.fore = indexed | color(n-30)
	case n == 39:
		p.fore = 0
	case n >= 40 && n <= 47:
		p.back = indexed | color(n-40)
	case n == 49:
		p.back = 0
	case n == 59:
		p.line = 0
	case n >= 90 && n <= 97:
		p.fore = indexed | color(n-90+8)
	case n >= 100 && n <= 107:
		p.back = indexed | color(n-100+8)
	default:
		p.flags |= switched[n]
		p.flags &^= ended[n]
	}
}

func (p *pen) underline(kind int) {
	if kind > 5 {
		kind = 1
	}
	p.flags = p.flags&^underlineMask | flags(kind)<<underlineShift
}
