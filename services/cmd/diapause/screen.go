package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

func screenCommand(c *client) *cobra.Command {
	var asHTML, asJSON bool
	cmd := &cobra.Command{
		Use: "screen NAME", Short: "Print what a session's terminal shows, or showed last", Args: cobra.ExactArgs(1),
		Long: `Print what a session's terminal shows now, or showed when the session was suspended
or ended. It doesn't resume a session, and counts as no use of it.`,
		Example: "  diapause screen work\n  diapause screen --html work > work.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			if asHTML && asJSON {
				return usagef("screen: leave one of --html and --json out")
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
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return cmd
}

// screen gets what a session's terminal shows.
func (c *client) screen(ctx context.Context, name string) (*emulator.Screen, error) {
	api, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	conn, err := c.dial(ctx, api, &attach.Hello{Name: name}, false)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	head, paint, err := attach.FetchScreen(conn)
	if err != nil {
		return nil, err
	}
	s := emulator.New(int(head.Rows), int(head.Cols))
	s.Write(paint)
	return s, nil
}
