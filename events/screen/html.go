package screen

import (
	"fmt"
	"html"
	"strings"
)

// HTML gives what a screen shows as one pre element, with colours and styles but without links: text of the program
// is never markup.
func HTML(s *Screen) string {
	var b strings.Builder
	b.WriteString("<pre class=\"terminal\">")
	for _, l := range s.shown().lines {
		rowHTML(&b, s.glyphs, l.cells)
		b.WriteByte('\n')
	}
	b.WriteString("</pre>\n")
	return b.String()
}

// HTML is the line as a part of a pre element, with colours and styles, and a line feed.
func (l Line) HTML() string {
	var b strings.Builder
	rowHTML(&b, l.glyphs, l.line.cells)
	b.WriteByte('\n')
	return b.String()
}

// rowHTML writes cells, those that look alike in one element, without blanks at the end that look like nothing.
func rowHTML(b *strings.Builder, g *glyphs, cells []cell) {
	for end := len(cells) - 1; end >= 0 && cells[end].char == ' ' && g.pens[cells[end].pen].style() == ""; end-- {
		cells = cells[:end]
	}
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].pen == cells[0].pen {
			n++
		}
		var text strings.Builder
		for _, c := range cells[:n] {
			if c.half != right {
				text.WriteString(g.text(c.char))
			}
		}
		if style := g.pens[cells[0].pen].style(); style != "" {
			fmt.Fprintf(b, "<span style=\"%s\">%s</span>", style, html.EscapeString(text.String()))
		} else {
			b.WriteString(html.EscapeString(text.String()))
		}
		cells = cells[n:]
	}
}

// style is how a pen looks in CSS; "" if it is the default.
func (p pen) style() string {
	var all []string
	fore, back := p.fore.css("var(--fore,#ddd)"), p.back.css("var(--back,#000)")
	if p.flags&inverse != 0 {
		fore, back = back, fore
	}
	if p.fore != 0 || p.flags&inverse != 0 {
		all = append(all, "color:"+fore)
	}
	if p.back != 0 || p.flags&inverse != 0 {
		all = append(all, "background:"+back)
	}
	for _, f := range []struct {
		flag flags
		css  string
	}{{bold, "font-weight:bold"}, {faint, "opacity:.6"}, {italic, "font-style:italic"}, {hidden, "visibility:hidden"}} {
		if p.flags&f.flag != 0 {
			all = append(all, f.css)
		}
	}
	var lines []string
	for _, f := range []struct {
		flag flags
		css  string
	}{{underlineMask, " underline"}, {struck, " line-through"}, {overlined, " overline"}} {
		if p.flags&f.flag != 0 {
			lines = append(lines, f.css)
		}
	}
	if len(lines) > 0 {
		all = append(all, "text-decoration:"+strings.Join(lines, "")[1:])
	}
	return strings.Join(all, ";")
}

// base are the first 16 colours, as xterm has them.
var base = [16]int{
	0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5,
	0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
}

// css is a colour in CSS, usual if it is the default.
func (c color) css(usual string) string {
	n := int(c & 0xffffff)
	switch {
	case c == 0:
		return usual
	case c&indexed == 0:
	case n < 16:
		n = base[n]
	case n < 232: // a cube of six steps
		step := func(i int) int {
			if i == 0 {
				return 0
			}
			return 55 + 40*i
		}
		n -= 16
		n = step(n/36)<<16 | step(n/6%6)<<8 | step(n%6)
	default:
		n = (8 + 10*(n-232)) * 0x010101
	}
	return fmt.Sprintf("#%06x", n)
}
