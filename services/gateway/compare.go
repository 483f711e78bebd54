package gateway

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/export"
)

// The bounds of what is compared: it is in memory.
const (
	comparedBytes = 4 << 20 // of each text
	comparedLines = 1 << 16
	perComparer   = 2 // of one token at a time
	allCompared   = 8
)

// comparing answers in what the texts of two recordings, or of two commands, differ.
type comparing struct {
	readings
	slots slots
}

func newComparing(g readings) *comparing {
	return &comparing{readings: g, slots: slots{what: "comparisons", each: perComparer, most: allCompared}}
}

func (c *comparing) operations(mux *http.ServeMux) {
	op := route{id: "diff", method: "GET", path: "/sessions/{session}/diff", tag: "recordings", summary: "Compare what two recorded terminals, or two commands, printed"}.operation()
	text, number := &huma.Schema{Type: "string"}, &huma.Schema{Type: "integer", Format: "int64"}
	op.Parameters = []*huma.Param{
		{Name: "session", In: "path", Required: true, Schema: text, Description: "TENANT.ID, or ID for the tenant default"},
		{Name: "with", In: "query", Schema: text, Description: "The other session, likewise; the same one for two of its commands"},
		{Name: "command", In: "query", Schema: number, Description: "The number of a command, whose output is compared in place of all"},
		{Name: "with_command", In: "query", Schema: number, Description: "That of the other one"},
	}
	c.downloading(mux, op, []string{plainText}, c.diff)
}

// compared is one of two texts.
type compared struct {
	of      schemas.View
	command int64 // its output; all that was recorded if 0
}

func (t compared) String() string {
	if t.command == 0 {
		return t.of.Name
	}
	return fmt.Sprintf("%s #%d", t.of.Name, t.command)
}

// diff answers as "diff -u" prints it; with nothing if the texts are the same.
func (c *comparing) diff(d *download, v schemas.View, r *http.Request) error {
	sides, err := c.sides(v, r)
	if err != nil {
		return err
	}
	end, p := c.slots.begin(d.me.Actor)
	if p != nil {
		return p
	}
	defer end()
	var lines [2][]string
	for i, s := range sides {
		text := export.Bounded{Most: comparedBytes, Newlines: comparedLines}
		err := c.text(d, s, &text)
		if errors.Is(err, export.ErrTooMuch) {
			return schemas.FailedError(schemas.ReasonTooLarge, "%s has more than %d MiB of text, or %d lines", s, comparedBytes>>20, comparedLines).
				WithHint("`diapause diff` compares more, and `command` less")
		}
		if err != nil {
			return err
		}
		lines[i] = text.Lines()
	}
	d.media = plainText
	out := bufio.NewWriterSize(d, pieces)
	export.Unified(out, [2]string{sides[0].String(), sides[1].String()}, lines[0], lines[1])
	if err := out.Flush(); err != nil {
		return err
	}
	d.begin() // where nothing differs
	return nil
}

// sides reads what is to be compared. The caller may read v; whether it may read the other one is asked.
func (c *comparing) sides(v schemas.View, r *http.Request) (sides [2]compared, err error) {
	sides[0].of, sides[1].of = v, v
	query := r.URL.Query()
	for i, parameter := range []string{"command", "with_command"} {
		if text := query.Get(parameter); text != "" {
			if sides[i].command, err = strconv.ParseInt(text, 10, 64); err != nil || sides[i].command < 1 {
				return sides, schemas.UsageError("%s %.40q: want the number of a command", parameter, text)
			}
		}
	}
	with := query.Get("with")
	if (sides[0].command == 0) != (sides[1].command == 0) || with == "" && sides[0].command == 0 {
		return sides, schemas.UsageError("want another session in with, or command and with_command")
	}
	if with != "" {
		sides[1].of, err = c.viewRead(r.Context(), OfSession{Session: with})
	}
	return sides, err
}

// text writes one of the texts.
func (c *comparing) text(d *download, s compared, to *export.Bounded) error {
	if s.command > 0 {
		return c.printedText(d, s.of, s.command, to)
	}
	out := bufio.NewWriterSize(to, pieces)
	err := c.eachEvent(d, s.of, attach.History{Events: true, Framed: export.Framed(export.Text)}, export.New(export.Text, s.of.Name, out))
	return cmp.Or(err, out.Flush())
}
