package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
)

func terminalCommands(c *client) []*cobra.Command {
	return []*cobra.Command{
		attachCommand(c), execCommand(c), logsCommand(c), screenCommand(c), commandsCommand(c), outputCommand(c), replayCommand(c), exportCommand(c), importCommand(c), diffCommand(c), searchCommand(c),
		copyCommand(c), forwardCommand(c), ingressCommand(c),
	}
}

// dial connects to a session through its host; ensure first brings it back. Which session it is is
// noted in hello: it connects to no other the next time.
func (c *client) dial(ctx context.Context, api *events.API, hello *attach.Hello, ensure bool) (*tunnel.Conn, error) {
	verb := "show"
	if ensure {
		verb = "ensure"
	}
	var v schemas.View
	if err := c.callOn(ctx, api, verb, schemas.Request{Name: hello.Name}, &v); err != nil {
		return nil, err
	}
	if hello.UID != "" && v.UID != hello.UID {
		return nil, &schemas.APIError{Code: schemas.CodeNoSession, Text: fmt.Sprintf("session %s was removed: another one has its name now", v.Name)}
	}
	hello.UID = v.UID
	return dialHost(ctx, api, v, *hello)
}

// dialHost connects to a session through the host that it is on.
func dialHost(ctx context.Context, api *events.API, v schemas.View, hello attach.Hello) (*tunnel.Conn, error) {
	hello.UID = v.UID
	data, err := json.Marshal(hello)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	conn, err := tunnel.Dial(ctx, api.Conn(), schemas.SubjectHost+"."+string(v.Host)+".dial", data)
	if errors.Is(err, tunnel.ErrNoListener) {
		return nil, fmt.Errorf("host %s of session %s doesn't answer", v.Host, v.Name)
	}
	return conn, err
}

// converse dials a session and carries one request through.
func (c *client) converse(ctx context.Context, hello attach.Hello, ensure bool, r attach.Request, s attach.Streams) (schemas.ExitStatus, error) {
	api, err := c.connect(ctx)
	if err != nil {
		return schemas.ExitStatus{}, err
	}
	defer api.Close()
	conn, err := c.dial(ctx, api, &hello, ensure)
	if err != nil {
		return schemas.ExitStatus{}, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	exit, err := attach.Do(conn, r, s)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return exit, err
}

// rawTerminal hands every key of a terminal on, and tells of its sizes. Input
// that is no terminal is passed on as it is.
func rawTerminal(ctx context.Context, r *attach.Request, s *attach.Streams) (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return func() {}, nil
	}
	if cols, rows, err := term.GetSize(fd); err == nil {
		r.Cols, r.Rows = uint16(cols), uint16(rows)
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("use the terminal: %w", err)
	}
	resized := make(chan attach.Size)
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	ctx, stop := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-changes:
			case <-ctx.Done():
				return
			}
			if cols, rows, err := term.GetSize(fd); err == nil {
				select {
				case resized <- attach.Size{Rows: uint16(rows), Cols: uint16(cols)}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	s.Resized = resized
	return func() {
		stop()
		signal.Stop(changes)
		_ = term.Restore(fd, before) // the terminal is gone, then
	}, nil
}

func copyCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cp NAME:PATH PATH | PATH NAME:PATH", Short: "Copy files out of a session, or into it", Args: cobra.ExactArgs(2),
		Example: "  diapause cp work:/root/result.csv .\n  diapause cp ./data work:/srv",
		RunE: func(cmd *cobra.Command, args []string) error {
			from, inFrom, outside := strings.Cut(args[0], ":")
			to, inTo, inside := strings.Cut(args[1], ":")
			switch {
			case outside && !inside:
				return c.copyOut(cmd.Context(), from, inFrom, args[1])
			case inside && !outside:
				return c.copyIn(cmd.Context(), args[0], to, inTo)
			}
			return usagef("cp: one of the two is NAME:PATH, the other a path here")
		},
	}
	cmd.Flags().Bool("json", false, "print an error as JSON")
	return cmd
}

func (c *client) copyOut(ctx context.Context, name, from, to string) error {
	if !path.IsAbs(from) {
		return usagef("cp: the path inside the session must be absolute, %q isn't", from)
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := unpack(pr, to)
		pr.CloseWithError(err)
		done <- err
	}()
	_, err := c.converse(ctx, attach.Hello{Name: name}, true, attach.Request{Op: attach.OpGet, Path: from}, attach.Streams{Stdout: pw})
	pw.CloseWithError(err) // nil closes it with io.EOF
	unpacked := <-done
	switch { // each end of the pipe hands the other its error
	case err != nil && errors.Is(unpacked, err):
		return err
	case unpacked != nil && errors.Is(err, unpacked):
		return unpacked
	}
	return errors.Join(unpacked, err)
}

func (c *client) copyIn(ctx context.Context, from, name, to string) error {
	if !path.IsAbs(to) {
		return usagef("cp: the path inside the session must be absolute, %q isn't", to)
	}
	if _, err := os.Lstat(from); err != nil {
		return usagef("cp: %v", err)
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(pack(pw, from)) }()
	defer pr.Close()
	_, err := c.converse(ctx, attach.Hello{Name: name, Input: true}, true, attach.Request{Op: attach.OpPut, Path: to, Stdin: true}, attach.Streams{Stdin: pr})
	return err
}

// pack writes a file or a tree as tar, under its own base name.
func pack(w io.Writer, from string) error {
	out := tar.NewWriter(w)
	root := filepath.Dir(filepath.Clean(from))
	err := filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return packOne(out, root, p, d)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	return out.Close()
}

func packOne(out *tar.Writer, root, p string, d os.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&os.ModeSymlink != 0 {
		if link, err = os.Readlink(p); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	if h.Name, err = filepath.Rel(root, p); err != nil {
		return err
	}
	if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

// unpack writes a tar stream below to, or as to if that isn't a directory. What
// comes out of a session is not trusted: nothing is written outside of to.
func unpack(r io.Reader, to string) error {
	base, rename := to, ""
	if info, err := os.Stat(to); err != nil || !info.IsDir() {
		base, rename = filepath.Split(filepath.Clean(to))
		if base == "" {
			base = "."
		}
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("write to %s: %w", to, err)
	}
	defer root.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the copy: %w", err)
		}
		name := filepath.Clean(h.Name)
		if rename != "" {
			_, rest, _ := strings.Cut(name, "/")
			name = filepath.Join(rename, rest)
		}
		if err := unpackOne(root, name, h, in); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(base, name), err)
		}
	}
}

func unpackOne(root *os.Root, name string, h *tar.Header, in io.Reader) error {
	mode := os.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, mode|0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		if _, err := io.Copy(f, in); err != nil {
			f.Close()
			return err
		}
		return f.Close()
	}
	return nil // devices, pipes and the like aren't copied
}
