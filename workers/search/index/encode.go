package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// state is what is kept of an index besides its words and commands.
type state struct {
	Blocks []Block        `json:"blocks"`
	Covers *recording.Ref `json:"covers"`
	At     int64          `json:"at"`
	Second bool           `json:"second,omitempty"`
	Hashed bool           `json:"hashed,omitempty"`
	Read   int64          `json:"read"`
	Plain  int64          `json:"plain"`
}

// The names of the parts beside the words.
const (
	partState    = "state"
	partCommands = "commands"
	partFilters  = "filters"
)

// Encode gives all of the index, for New's counterpart Open. What isn't a block yet becomes one, and so does a line that hasn't ended.
func (x *Index) Encode() ([]byte, error) {
	x.cut(false)
	if s, ok := x.transcript.Pending(); ok {
		x.tail = []Stretch{s}
		x.cut(true)
	}
	if x.err != nil {
		return nil, x.err
	}
	if n := len(x.blocks); n > 0 {
		x.filter(x.blocks[n-1].To)
	}
	s := state{Blocks: x.blocks, Covers: x.covers, Hashed: x.hashed, Read: x.read, Plain: x.plain}
	s.At, s.Second = x.transcript.At()
	data, err := json.Marshal(s)
	if err == nil {
		err = x.db.put(partState, data)
	}
	if err == nil {
		err = x.db.put(partCommands, encodeCommands(x.commands))
	}
	if err == nil {
		err = x.db.put(partFilters, encodeFilters(x.filters))
	}
	if err != nil {
		return nil, fmt.Errorf("encode an index: %w", err)
	}
	return x.db.serialize()
}

// Open reads what Encode gave.
func Open(data []byte) (*Index, error) {
	db, err := loadDatabase(data)
	if err != nil {
		return nil, err
	}
	x := &Index{db: db}
	if err := x.load(); err != nil {
		db.close()
		return nil, fmt.Errorf("open an index: %w", err)
	}
	return x, nil
}

func (x *Index) load() error {
	data, err := x.db.get(partState)
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if data, err = x.db.get(partCommands); err != nil {
		return err
	}
	if x.commands, err = decodeCommands(data); err != nil {
		return err
	}
	if data, err = x.db.get(partFilters); err != nil { // none of a version before
		return err
	}
	if x.filters, err = decodeFilters(data); err != nil {
		return err
	}
	x.blocks, x.covers, x.hashed, x.read, x.plain = s.Blocks, s.Covers, s.Hashed, s.Read, s.Plain
	for _, b := range x.blocks {
		x.latest = later(x.latest, b.Ended)
	}
	for _, c := range x.commands {
		x.texts += int64(len(c.Text))
	}
	x.transcript = NewTranscript(s.At, s.Second)
	return nil
}

// encodeCommands writes each as differences to the one before.
func encodeCommands(all []schemas.TypedCommand) (b []byte) {
	var was schemas.TypedCommand
	for _, c := range all {
		b = binary.AppendVarint(b, c.Number-was.Number)
		b = binary.AppendVarint(b, c.Began.UnixMilli()-was.Began.UnixMilli())
		b = binary.AppendVarint(b, c.From-was.To)
		switch {
		case c.Running():
			b = append(b, 0)
		case c.Exit == nil:
			b = append(b, 1)
		default:
			b = binary.AppendVarint(append(b, 2), int64(*c.Exit))
		}
		if !c.Running() {
			b = binary.AppendVarint(b, c.Ended.UnixMilli()-c.Began.UnixMilli())
			b = binary.AppendVarint(b, c.To-c.From)
		}
		b = binary.AppendUvarint(b, uint64(len(c.Text)))
		b = append(b, c.Text...)
		was = c
	}
	return b
}

var errCommands = errors.New("its commands can't be read")

// numbers reads what was appended.
type numbers struct {
	b   []byte
	bad bool
}

func (n *numbers) next() int64 {
	v, size := binary.Varint(n.b)
	if size <= 0 {
		n.b, n.bad = nil, true
		return 0
	}
	n.b = n.b[size:]
	return v
}

func (n *numbers) text() string {
	size, read := binary.Uvarint(n.b)
	if read <= 0 || size > uint64(len(n.b)-read) {
		n.b, n.bad = nil, true
		return ""
	}
	text := string(n.b[read : read+int(size)])
	n.b = n.b[read+int(size):]
	return text
}

func (n *numbers) tag() byte {
	if len(n.b) == 0 {
		n.bad = true
		return 0
	}
	tag := n.b[0]
	n.b = n.b[1:]
	return tag
}

func decodeCommands(b []byte) (all []schemas.TypedCommand, err error) {
	var was schemas.TypedCommand
	for n := (numbers{b: b}); len(n.b) > 0; {
		c := schemas.TypedCommand{Number: was.Number + n.next()}
		c.Began = time.UnixMilli(was.Began.UnixMilli() + n.next()).UTC()
		c.From = was.To + n.next()
		tag := n.tag()
		if tag == 2 {
			exit := int(n.next())
			c.Exit = &exit
		}
		if tag != 0 {
			c.Ended = time.UnixMilli(c.Began.UnixMilli() + n.next()).UTC()
			c.To = c.From + n.next()
		}
		if c.Text = n.text(); n.bad {
			return nil, errCommands
		}
		all, was = append(all, c), c
	}
	return all, nil
}
