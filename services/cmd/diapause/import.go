package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

const importHelp = `Make a session of a recording that was made elsewhere: an asciicast of version 2 or 3,
as asciinema and "diapause export" write them. The session has ended, never ran here, and
is in the archive ("diapause ls --archived"): "logs", "replay", "screen", "export",
"commands", "output" and "search" show it as any other, and it is removed with "rm". The
recording is sealed like those that are made here.

Without --name the session is called as the file. "-" is standard input, which needs
--name. Events of kinds that aren't known are left out. If anything in the file is no
asciicast, nothing is imported.`

func importCommand(c *client) *cobra.Command {
	var name, host string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make an archived session of an asciicast", Args: cobra.ExactArgs(1),
		Long:    importHelp,
		Example: "  diapause import demo.cast\n  diapause export work | diapause import --name copy -",
		RunE: func(cmd *cobra.Command, args []string) error {
			from, called, err := opened(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			if name == "" {
				name = nameOfFile(called)
			}
			if name == "" {
				return usagef("import: give the session a name with --name")
			}
			n, err := schemas.ParseName(name)
			if err == nil {
				err = n.ValidateNew()
			}
			if err != nil {
				return usage(err)
			}
			v, taken, err := importFrom(cmd.Context(), c, n, schemas.HostID(host), from, called)
			if err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() {
				fmt.Fprintf(printed, "session %s is imported and archived: %s of output, %s, recorded %s\n", v.Name, size(taken.Output), count(taken.Commands, "command"), taken.Began.Local().Format(time.DateTime))
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "[tenant/]id of the session (default: that of the file)")
	cmd.Flags().StringVar(&host, "host", "", "which `HOST` takes it in and shows it (default: the first that can)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// opened opens a file to import, and says what it is called.
func opened(path string) (from io.ReadCloser, called string, err error) {
	if path == "-" {
		return io.NopCloser(os.Stdin), "standard input", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", usagef("import: %v", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, "", usagef("import: %s is a directory", path)
	}
	return f, filepath.Base(path), nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// maxID is how long the id of a session may be.
const maxID = 64

// nameOfFile makes a session's name of that of a file; "" if it has nothing for one.
func nameOfFile(called string) string {
	if called == "standard input" {
		return ""
	}
	name := strings.Trim(notInNames.ReplaceAllString(strings.TrimSuffix(called, filepath.Ext(called)), "-"), "-")
	return strings.TrimRight(name[:min(len(name), maxID)], "-")
}

// importFrom has a host take in a recording, and makes the session of it.
func importFrom(ctx context.Context, c *client, n schemas.Name, host schemas.HostID, from io.Reader, called string) (v schemas.View, taken schemas.Imported, err error) {
	api, err := c.connect(ctx)
	if err != nil {
		return v, taken, err
	}
	defer api.Close()
	if err := freeName(ctx, c, api, n); err != nil {
		return v, taken, err
	}
	if host == "" {
		if host, err = importerOf(ctx, c, api); err != nil {
			return v, taken, err
		}
	}
	conn, err := dialHost(ctx, api, schemas.View{Host: host, Name: n.String()}, attach.Hello{Name: n.String(), Import: true})
	if err != nil {
		return v, taken, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err = attach.SendImport(conn, from, func(t schemas.Imported) error {
		taken = t
		return c.callOn(ctx, api, "run", schemas.Request{Name: n.String(), Run: &schemas.RunRequest{Host: host, Import: &schemas.ImportRequest{UID: t.UID, From: called}}}, &v)
	})
	switch {
	case ctx.Err() != nil && v.Name == "":
		return v, taken, errInterrupted
	case err != nil && v.Name != "":
		return v, taken, schemas.WithHint(fmt.Errorf("session %s is made, its recording may be missing: %w", n, err), "`diapause logs %s` shows whether it has", n)
	case errors.Is(err, attach.ErrLost):
		return v, taken, fmt.Errorf("import to host %s: %w", host, err)
	}
	return v, taken, err
}

// freeName refuses a name that is taken before anything is sent.
func freeName(ctx context.Context, c *client, api *events.API, n schemas.Name) error {
	var v schemas.View
	err := c.callOn(ctx, api, "show", schemas.Request{Name: n.String()}, &v)
	var refusal *schemas.APIError
	switch {
	case err == nil:
		return schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", v.Name, v.State).WithHint("give the recording another name with --name")
	case errors.As(err, &refusal) && refusal.Code == schemas.CodeNoSession:
		return nil
	}
	return err
}

// importerOf gives a host that can take in recordings.
func importerOf(ctx context.Context, c *client, api *events.API) (schemas.HostID, error) {
	var all []schemas.HostView
	if err := c.callOn(ctx, api, "host_ls", schemas.Request{}, &all); err != nil {
		return "", err
	}
	for _, h := range all {
		if h.TakesImports(nameCriu) {
			return h.Host.Host, nil
		}
	}
	return "", schemas.FailedError(schemas.ReasonNoHost, "no host can take in a recording").WithHint("`diapause host ls` lists what they have")
}
