package schemas

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"
)

// Redact says of what secrets are taken out before it is stored, as far as they are known by their looks.
type Redact string

// Of what they are.
const (
	RedactNothing   Redact = "off"
	RedactRecording Redact = "recording" // what is recorded from the next start or resume on
)

func (r Redact) validate() error {
	if r != "" && r != RedactNothing && r != RedactRecording {
		return fmt.Errorf("redact %q: want %s or %s", r, RedactNothing, RedactRecording)
	}
	return nil
}

// RedactRequest says what is taken out of a session's recording.
type RedactRequest struct {
	// Match is a regular expression in the syntax of Go (RE2). It may be the secret itself: nothing keeps it.
	Match  string `json:"match"`
	DryRun bool   `json:"dry_run,omitempty"` // say what there is, and take nothing out
}

// maxMatch bounds an expression, in bytes.
const maxMatch = 4 << 10

// Expression gives what is to match: ^ and $ are the ends of a line.
func (r RedactRequest) Expression() (*regexp.Regexp, error) {
	switch {
	case r.Match == "":
		return nil, errors.New("match: want a regular expression")
	case len(r.Match) > maxMatch:
		return nil, fmt.Errorf("match: %d bytes are more than %d", len(r.Match), maxMatch)
	}
	re, err := regexp.Compile("(?m)" + r.Match)
	if err != nil {
		return nil, fmt.Errorf("match: it is no regular expression in the syntax of Go: %w", withoutText(err))
	}
	return re, nil
}

// withoutText says what is wrong with an expression without the expression, which may be a secret.
func withoutText(err error) error {
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		return errors.New(wrong.Code.String())
	}
	return errors.New("it can't be read")
}

// Redacted is what was taken out of a recording, or would be. What it was isn't said.
type Redacted struct {
	Name       string   `json:"name"`
	DryRun     bool     `json:"dry_run,omitempty"`
	Matches    int      `json:"matches"`              // in what was printed and typed
	Commands   int      `json:"commands"`             // whose text or directory had it
	Screens    int      `json:"screens"`              // matches in what the terminal showed as a whole
	Segments   int      `json:"segments"`             // of the recording that were written once more
	Outputs    int      `json:"outputs"`              // kept last outputs that were
	Unreadable int      `json:"unreadable,omitempty"` // parts that can't be read, and are as they were
	Running    int64    `json:"running,omitempty"`    // the command that runs and has it in its text: that is noted once more when it ends
	Images     []string `json:"images"`               // snapshots whose memory may have it
}

// Found reports whether anything was.
func (r Redacted) Found() bool {
	return r.Matches > 0 || r.Commands > 0 || r.Screens > 0 || r.Outputs > 0
}

// RedactQuestion is what the API asks of a session's host.
type RedactQuestion struct {
	Name string `json:"name"`
	UID  UID    `json:"uid"`
	RedactRequest
	By     string    `json:"by"`
	Before time.Time `json:"before"` // no one waits for the answer after that
}

// RedactAnswer is what the host says.
type RedactAnswer struct {
	Redacted
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}
