package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Xterm is an X server without a screen and a terminal window on it.
func Xterm() Program {
	x := &xterm{}
	return Program{
		Name: "Xvfb with xterm", State: "window id, every pixel of the screen, new text drawn after each resume",
		Needs: []string{"Xvfb", "xterm", "xwd", "xwininfo"}, Version: []string{"xterm", "-version"},
		Flags: []string{"--env", "DISPLAY=:77"}, Command: []string{"/bin/sh", "-c", xtermScript},
		Prepare: x.prepare, Check: x.check,
	}
}

const xtermScript = `mkdir -p /tmp/.X11-unix
Xvfb :77 -screen 0 800x600x24 -nolisten tcp >/tmp/server.out 2>&1 &
until xwininfo -root >/dev/null 2>&1; do sleep 0.05; done
mkfifo /tmp/in
exec 3<>/tmp/in
xterm -T watched -geometry 80x24+10+10 -e sh -c 'cat </tmp/in' &
wait`

type xterm struct{ window, screen string }

func (x *xterm) prepare(ctx context.Context, s *local.Session) error {
	var err error
	if x.window, err = s.Until(ctx, patience, `xwininfo -root -tree | grep -o '0x[0-9a-f]* "watched"'`); err != nil {
		said, _ := s.Shell(ctx, "cat /tmp/server.out")
		return fmt.Errorf("there is no window: %w: %s", err, said)
	}
	if x.screen, err = x.pixels(ctx, s); err != nil {
		return err
	}
	return x.draw(ctx, s, "before the first suspend")
}

func (x *xterm) check(ctx context.Context, s *local.Session, r Round) error {
	window, err := s.Shell(ctx, `xwininfo -root -tree | grep -o '0x[0-9a-f]* "watched"'`)
	if err != nil {
		return fmt.Errorf("the window is gone: %w", err)
	}
	if err := same("the window", x.window, window); err != nil {
		return err
	}
	screen, err := x.pixels(ctx, s)
	if err != nil {
		return err
	}
	if err := same("the digest of the screen", x.screen, screen); err != nil {
		return err
	}
	return x.draw(ctx, s, fmt.Sprintf("after resume %d", r.N))
}

func (x *xterm) pixels(ctx context.Context, s *local.Session) (string, error) {
	out, err := s.Shell(ctx, "xwd -root -silent | sha256sum")
	return strings.TrimSpace(out), err
}

// draw prints text in the window and waits until it is on the screen, whole: two
// pictures in a row are the same, and other than the one before.
func (x *xterm) draw(ctx context.Context, s *local.Session, text string) error {
	if _, err := s.Exec(ctx, text+"\n", "/bin/sh", "-c", "cat >/tmp/in"); err != nil {
		return err
	}
	was := strings.Fields(x.screen)[0]
	out, err := s.Until(ctx, patience, `a=$(xwd -root -silent | sha256sum); sleep 0.2; b=$(xwd -root -silent | sha256sum)
		[ "$a" = "$b" ] && [ "${a%% *}" != `+was+` ] && echo "$a"`)
	if err != nil {
		return errors.Join(fmt.Errorf("%q doesn't come onto the screen", text), err)
	}
	x.screen = strings.TrimSpace(out)
	return nil
}
