package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

func screenCommand(c *client) *cobra.Command {
	var asHTML, asJSON bool
	var picture string
	cmd := &cobra.Command{
		Use: "screen NAME", Short: "Print what a session's terminal shows, or showed last", Args: cobra.ExactArgs(1),
		Long: `Print what a session's terminal shows now, or showed when the session was suspended
or ended. It doesn't resume a session, and counts as no use of it. --picture writes what a desktop that sleeps showed
last, as a JPEG.`,
		Example: "  diapause screen work\n  diapause screen --html work > work.html\n  diapause screen --picture desk.jpg desk",
		RunE: func(cmd *cobra.Command, args []string) error {
			if asHTML && asJSON {
				return usagef("screen: leave one of --html and --json out")
			}
			if picture != "" {
				if asHTML || asJSON {
					return usagef("screen: leave --html and --json out with --picture")
				}
				return keepPicture(cmd.Context(), c, args[0], picture)
			}
			s, err := c.screen(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(emulator.ShownOf(s), func() {
				if asHTML {
					fmt.Fprint(printed, emulator.HTML(s))
					return
				}
				fmt.Fprint(printed, emulator.ShownOf(s))
			})
		},
	}
	cmd.Flags().BoolVar(&asHTML, "html", false, "as HTML, with colours")
	cmd.Flags().StringVar(&picture, "picture", "", "`FILE` to write what a desktop that sleeps showed last to")
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// asks connects to a session, which counts as nothing, and has fn ask for something there.
func asks(ctx context.Context, c *client, name string, fn func(net.Conn) error) error {
	api, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	conn, err := c.dial(ctx, api, &attach.Hello{Name: name}, false)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	return fn(conn)
}

// screen gets what a session's terminal shows.
func (c *client) screen(ctx context.Context, name string) (s *emulator.Screen, err error) {
	err = asks(ctx, c, name, func(conn net.Conn) error {
		head, paint, err := attach.FetchScreen(conn)
		if err == nil {
			s = emulator.New(int(head.Rows), int(head.Cols))
			s.Write(paint)
		}
		return err
	})
	return s, err
}

// keepPicture writes to a file what a desktop showed last.
func keepPicture(ctx context.Context, c *client, name, file string) error {
	return asks(ctx, c, name, func(conn net.Conn) error {
		jpeg, err := attach.FetchPicture(conn)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, jpeg, 0o600); err != nil {
			return fmt.Errorf("write the picture: %w", err)
		}
		return nil
	})
}
