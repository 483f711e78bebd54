package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
)

// allLines is the --tail of logs that shows all that is kept.
const allLines = -1

func logsCommand(c *client) *cobra.Command {
	var follow bool
	var lines int
	var shown attach.History
	var since time.Duration
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Print what a session's command has printed: the last 1 MiB, or all that was recorded", Args: cobra.ExactArgs(1),
		Example: "  diapause logs --tail 20 work\n  diapause logs -f -n 0 work\n  diapause logs --since 2h --timestamps work",
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < allLines {
				return usagef("--tail %d: want how many lines, or %d for all", lines, allLines)
			}
			if since < 0 {
				return usagef("--since %v: want how long ago, e.g. 2h", since)
			}
			if since > 0 {
				shown.Since = time.Now().Add(-since)
			}
			err := c.logs(cmd.Context(), args[0], lines, follow, shown)
			if cmd.Context().Err() != nil {
				return exitStatus(exitInterrupted) // that is how a look at it ends
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the session ends or is suspended")
	cmd.Flags().IntVarP(&lines, "tail", "n", allLines, "begin with the last `LINES`")
	durationVar(cmd.Flags(), &since, "since", 0, "of a recorded terminal: what was printed in the last `DURATION`, e.g. 2h")
	cmd.Flags().BoolVar(&shown.Times, "timestamps", false, "begin each line with its time")
	return cmd
}

// logs prints the last lines of the output, and what follows if asked to.
func (c *client) logs(ctx context.Context, name string, lines int, follow bool, shown attach.History) error {
	if lines == allLines {
		return c.output(ctx, name, follow, &shown, os.Stdout, os.Stderr)
	}
	history := &shown
	if shown == (attach.History{}) {
		history = nil // the last lines are among what is kept beside the recording, most of the time
	}
	kept := written{lines: lines}
	if err := c.output(ctx, name, false, history, kept.to(os.Stdout), kept.to(os.Stderr)); err != nil {
		return err
	}
	from := kept.lastLines(lines)
	if lines > 0 && from == 0 && history == nil && len(kept.all) >= attach.OutputKept/2 {
		kept, history = written{lines: lines}, &shown
		if err := c.output(ctx, name, false, history, kept.to(os.Stdout), kept.to(os.Stderr)); err != nil {
			return err
		}
		from = kept.lastLines(lines)
	}
	if kept.capped && from == 0 {
		fmt.Fprintf(os.Stderr, "diapause: the last %d lines have more than %d MiB: these are the last of them\n", lines, maxWritten>>20)
	}
	if !follow {
		return kept.print(from)
	}
	rest := &skipper{first: kept.first, dropped: kept.dropped, was: kept.all, from: from}
	return c.output(ctx, name, true, history, rest.to(os.Stdout), rest.to(os.Stderr))
}

// output carries the output from where it is: a session that ends or is suspended while it
// is asked has it elsewhere the next moment.
func (c *client) output(ctx context.Context, name string, follow bool, history *attach.History, stdout, stderr io.Writer) error {
	const tries = 5
	var err error
	for range tries {
		out, errs := &counted{Writer: stdout}, &counted{Writer: stderr}
		_, err = c.converse(ctx, attach.Hello{Name: name}, false,
			attach.Request{Op: attach.OpOutput, Tail: -1, Follow: follow, History: history}, attach.Streams{Stdout: out, Stderr: errs})
		if !errors.Is(err, attach.ErrLost) {
			return err
		}
		if out.n+errs.n > 0 {
			break
		}
	}
	if follow {
		return nil // suspended, or gone
	}
	return err
}

// counted counts what is written.
type counted struct {
	io.Writer
	n int
}

func (w *counted) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n += n
	return n, err
}

// writerFunc is a function that writes.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The bounds of what is held of output whose last lines are asked for: no more than these lines, but for as much as a session keeps without a
// recording, among which the skipper looks; and never more than maxWritten.
const (
	leastWritten = 2 * attach.OutputKept
	maxWritten   = 64 << 20
)

// written is output in the order in which it was written: its last lines, and what comes before them for a bit.
type written struct {
	lines   int
	first   []byte // known bytes of it
	dropped int    // bytes before all
	all     []byte
	pieces  []piece
	trimAt  int  // the length of all at which it is looked for what may be dropped
	capped  bool // the lines were too long
}

// piece is what was written to one stream in one go.
type piece struct {
	end int // in all
	to  io.Writer
}

func (w *written) to(stream io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		w.first = append(w.first, p[:min(len(p), known-len(w.first))]...)
		w.all = append(w.all, p...)
		if n := len(w.pieces); n > 0 && w.pieces[n-1].to == stream {
			w.pieces[n-1].end = len(w.all)
		} else {
			w.pieces = append(w.pieces, piece{len(w.all), stream})
		}
		if len(w.all) >= max(w.trimAt, 2*leastWritten) {
			w.trim()
		}
		return len(p), nil
	})
}

// trim drops what isn't needed. It looks through all that is held, so it is called again only when that has doubled.
func (w *written) trim() {
	cut := min(w.lastLines(w.lines), len(w.all)-leastWritten)
	if least := len(w.all) - maxWritten; cut < least {
		w.capped, cut = true, least+bytes.IndexByte(w.all[least:], '\n')+1
	}
	w.trimAt = min(2*(len(w.all)-cut), maxWritten+maxWritten/4)
	if cut == 0 {
		return
	}
	w.dropped += cut
	w.all = append([]byte(nil), w.all[cut:]...)
	keep := slices.IndexFunc(w.pieces, func(p piece) bool { return p.end > cut })
	if keep < 0 {
		keep = len(w.pieces)
	}
	w.pieces = append([]piece(nil), w.pieces[keep:]...)
	for i := range w.pieces {
		w.pieces[i].end -= cut
	}
}

// lastLines gives where the last n lines begin.
func (w *written) lastLines(n int) int {
	at := len(bytes.TrimSuffix(w.all, []byte("\n")))
	if n == 0 {
		return len(w.all)
	}
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(w.all[:at], '\n')
	}
	return at + 1
}

// print writes what begins at from to the streams that it came for.
func (w *written) print(from int) error {
	at := 0
	for _, p := range w.pieces {
		if p.end > from {
			if _, err := p.to.Write(w.all[max(at, from):p.end]); err != nil {
				return err
			}
		}
		at = p.end
	}
	return nil
}

// skipper passes output on from a position in what it was a moment before, of which the beginning may be known alone.
type skipper struct {
	first   []byte
	dropped int // bytes before was
	was     []byte
	from    int // in was

	started bool
	skip    int
}

func (s *skipper) to(stream io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if !s.started {
			s.started, s.skip = true, s.toSkip(p)
		}
		n := min(s.skip, len(p))
		s.skip -= n
		if n == len(p) {
			return n, nil
		}
		written, err := stream.Write(p[n:])
		return n + written, err
	})
}

// known is how much of the first piece is looked for in what the output was.
const known = 256

// toSkip gives how much to skip of output that begins with first. Its beginning may have
// been dropped meanwhile, since no more than the last 1 MiB is kept.
func (s *skipper) toSkip(first []byte) int {
	switch {
	case s.dropped > 0 && (bytes.HasPrefix(s.first, first) || bytes.HasPrefix(first, s.first)):
		return s.dropped + s.from
	case s.dropped == 0 && (bytes.HasPrefix(s.was, first) || bytes.HasPrefix(first, s.was)):
		return s.from
	}
	gone := bytes.LastIndex(s.was, first[:min(len(first), known)])
	if gone < 0 {
		return 0
	}
	return max(s.from-gone, 0)
}
