package main

import (
	"cmp"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// logging is how a process says on standard error what it does.
type logging struct {
	verbose bool
	format  string
}

func (l *logging) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&l.verbose, "verbose", "v", false, "log what is decided, too")
	cmd.Flags().StringVar(&l.format, "log-format", cmp.Or(os.Getenv("DIAPAUSE_LOG_FORMAT"), "text"), "how a line of the log is written: text or json (DIAPAUSE_LOG_FORMAT)")
}

func (l logging) open() (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: slog.LevelWarn}
	if l.verbose {
		o.Level = slog.LevelInfo
	}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, usagef("--log-format %q: want text or json", l.format)
}
