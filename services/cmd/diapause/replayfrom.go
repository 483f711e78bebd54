package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// fromForms are the forms of a time, beside RFC 3339, in this machine's time zone.
var fromForms = []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// beginning is where a replay begins: at a moment, or where a command began.
type beginning struct {
	attach.History
	command int64
}

// fromOf reads --from.
func fromOf(text string, zone *time.Location) (beginning, error) {
	if text == "" {
		return beginning{}, nil
	}
	if digits := strings.TrimPrefix(text, "#"); digits != text || text != "0" && strings.Trim(text, "0123456789") == "" {
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || number < 1 {
			return beginning{}, usagef("--from %.40q is no number of a command", text).WithHint("`diapause commands` lists them, from 1 on")
		}
		return beginning{command: number}, nil
	}
	if after, err := schemas.ParseDuration(text); err == nil {
		if after < 0 {
			return beginning{}, usagef("--from %s: want how long after the beginning, e.g. 90s", text)
		}
		return beginning{History: attach.History{Framed: true, After: after}}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	for _, form := range fromForms {
		if err != nil {
			at, err = time.ParseInLocation(form, text, zone)
		}
	}
	if err != nil {
		return beginning{}, usagef("--from %q: want e.g. 90s, '2026-05-04 15:30', or a command's number", text)
	}
	return beginning{History: attach.History{Framed: true, Since: at}}, nil
}

// partFrom gives the part of a recording that a replay is of.
func (c *client) partFrom(ctx context.Context, name string, from beginning) (attach.History, error) {
	if from.command == 0 {
		return from.History, nil
	}
	command, err := c.commandOf(ctx, name, from.command)
	return attach.History{Framed: true, Since: command.Began}, err
}
