package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Up says which server runs on a data directory.
type Up struct {
	URL         string         `json:"url,omitempty"`        // of NATS, for clients with ClientCreds
	PublicURL   string         `json:"public_url,omitempty"` // of NATS, for clients without credentials
	PID         int            `json:"pid"`
	Host        schemas.HostID `json:"host,omitempty"`
	Started     time.Time      `json:"started"`
	ClientCreds string         `json:"client_creds,omitempty"` // file with what clients need to connect
	Web         string         `json:"web,omitempty"`          // URL of the gateway, for browsers
}

// Locate finds the server that runs on the data directory at path. It changes
// nothing. Its errors say what to do and match ErrNotRunning or ErrAccess.
func Locate(path string) (Up, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Up{}, fmt.Errorf("find data directory: %w", err)
	}
	up, err := locate(path)
	if err != nil {
		return Up{}, fmt.Errorf("data directory %s: %w", path, err)
	}
	return up, nil
}

func locate(path string) (Up, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Up{}, schemas.WithHint(fmt.Errorf("%w, there is no such directory", ErrNotRunning),
			"start it with `diapause up --data %s`, or name yours with --data or DIAPAUSE_DATA", path)
	}
	text, err := os.ReadFile(filepath.Join(path, upFile))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Up{}, notReadable(path)
	case errors.Is(err, fs.ErrNotExist):
		return Up{}, noNotice(path)
	case err != nil:
		return Up{}, err
	}
	var up Up
	if err := json.Unmarshal(text, &up); err != nil || up.URL == "" {
		return Up{}, schemas.WithHint(fmt.Errorf("its file %s is damaged", upFile), "stop and start `diapause up`")
	}
	if _, held, err := lockHolder(path); err != nil {
		return Up{}, err
	} else if !held {
		return Up{}, schemas.WithHint(fmt.Errorf("%w any more: process %d, started %s, was killed", ErrNotRunning, up.PID, up.Started.Format(time.RFC3339)),
			"start it again with `diapause up --data %s`; sessions are kept", path)
	}
	return up, nil
}

// noNotice explains why no server has said where it is.
func noNotice(path string) error {
	holder, held, err := lockHolder(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return notReadable(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case held:
		return schemas.WithHint(fmt.Errorf("%w yet: %s is starting or stopping", ErrNotRunning, describe(holder)), "try again in a moment")
	}
	return schemas.WithHint(ErrNotRunning, "start it with `diapause up --data %s`", path)
}

func writeNotice(path string, up Up) error {
	text, err := json.MarshalIndent(up, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(path, upFile), append(text, '\n'))
}
