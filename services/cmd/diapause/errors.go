package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
)

// The exit codes, which are fixed.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNoSession = 3
	exitState     = 4
	exitTimeout   = 5
	// As for any program that Ctrl-C ends.
	exitInterrupted = 130
)

// codeInterrupted is the code of an error that the API has none for: this program was
// interrupted, and what was asked for goes on.
const codeInterrupted = "interrupted"

// errInterrupted is the end of who asked, not of what was asked for.
var errInterrupted = errors.New("interrupted")

// exitStatus ends the program with the status of a command that ran in a
// session, and nothing printed.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// reported is an error that was printed already: it counts for the exit code.
type reported struct{ error }

func (r reported) Unwrap() error { return r.error }

// answered is an error whose JSON is in the answer that was printed.
type answered struct{ error }

func (a answered) Unwrap() error { return a.error }

// usagef is wrong use of the command line.
func usagef(format string, args ...any) *schemas.APIError { return schemas.UsageError(format, args...) }

// usage makes an error one of wrong use of the command line.
func usage(err error) *schemas.APIError {
	return &schemas.APIError{Code: schemas.CodeUsage, Text: err.Error(), Hint: schemas.HintOf(err)}
}

// failure gives an error as it is printed with --json.
func failure(err error) *schemas.APIError {
	out := &schemas.APIError{Code: schemas.CodeFailed, Text: err.Error(), Hint: schemas.HintOf(err)}
	var e *schemas.APIError
	switch {
	case errors.As(err, &e):
		out.Code, out.Reason, out.Session, out.Detail = e.Code, e.Reason, e.Session, e.Detail
	case errors.Is(err, context.DeadlineExceeded):
		out.Code = schemas.CodeTimeout
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		out.Code = codeInterrupted
	}
	return out
}

func exitCode(e *schemas.APIError) int {
	switch e.Code {
	case schemas.CodeUsage:
		return exitUsage
	case schemas.CodeNoSession:
		return exitNoSession
	case schemas.CodeState:
		return exitState
	case schemas.CodeTimeout:
		return exitTimeout
	case codeInterrupted:
		return exitInterrupted
	}
	return exitFailed
}

// report prints an error: as JSON on standard output, or for a person, the hint on its own
// line.
func report(e *schemas.APIError, a answers) {
	if a.asJSON {
		_ = a.print(e, nil) // standard output is closed, then
		return
	}
	fmt.Fprintln(complained, "diapause: "+e.Text)
	if e.Hint != "" {
		fmt.Fprintln(complained, "hint: "+e.Hint)
	}
	if e.Detail != "" {
		fmt.Fprintln(complained, "detail: "+e.Detail)
	}
}

// ended prints the error that a command ended with, and gives the exit code.
func ended(cmd *cobra.Command, args []string, err error) int {
	if status := exitStatus(0); errors.As(err, &status) {
		return int(status)
	}
	e := failure(err)
	code := exitCode(e)
	if !errors.As(err, &reported{}) {
		report(e, answers{asJSON: wantsJSON(cmd, args) && !errors.As(err, &answered{})})
	}
	if own := cmd.Annotations[ownStatus]; own != "" && code != exitInterrupted {
		code, _ = strconv.Atoi(own) // it is ours
	}
	return code
}

// wantsJSON reports whether a command was given --json, also if its flags were not read
// because one of them is wrong.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	f := cmd.Flag("json")
	if f != nil && f.Changed {
		return f.Value.String() == "true"
	}
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return (f != nil || !cmd.HasParent()) && slices.Contains(args, "--json")
}

// flagError says in our words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	e := usagef("%v", err)
	switch {
	case errors.As(err, &unknown):
		flag := dashes(unknown.GetSpecifiedName())
		e = usagef("unknown flag %s", flag)
		e.Hint = elsewhereFlag(cmd, unknown.GetSpecifiedName())
	case errors.As(err, &empty):
		e = usagef("%s wants a value", dashes(empty.GetSpecifiedName()))
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		e = usagef("--%s %q: %s", f.Name, invalid.GetValue(), wanted(f, invalid.Unwrap()))
	}
	e.Hint = cmp.Or(e.Hint, fmt.Sprintf("see `%s --help`", cmd.CommandPath()))
	return e
}

func dashes(flag string) string {
	if len(flag) == 1 {
		return "-" + flag
	}
	return "--" + flag
}

// wanted says what a flag takes.
func wanted(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "bool":
		return "want true or false"
	case "int", "int64":
		return "want a whole number"
	case "float64":
		return "want a number"
	case typeDuration, typeSize:
		_, text, _ := strings.Cut(err.Error(), ": ")
		return text
	}
	return err.Error()
}

// argumentError says in our words what is wrong with the arguments of a command, which
// check refuses.
func argumentError(cmd *cobra.Command, args []string, check cobra.PositionalArgs) error {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	e := usagef("%s: an argument is missing", path)
	for n := len(args) - 1; n >= 0; n-- {
		if check(cmd, args[:n]) == nil {
			e = usagef("%s: one argument too many: %q", path, args[n])
			break
		}
	}
	return e.WithHint("usage: %s", cmd.UseLine())
}

// checkArgs has wrong arguments of a command, and of those below it, be a usage error in
// our words.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if e := (*schemas.APIError)(nil); err == nil || errors.As(err, &e) || errors.Is(err, pflag.ErrHelp) {
				return err
			}
			return argumentError(cmd, args, check)
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}
