package rootfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// The codes of the errors of this package, as driver.CodeOf tells them.
const (
	CodeReference    = "root_reference"    // it can't name an image
	CodeNotFound     = "root_not_found"    // there is no such image
	CodeDenied       = "root_denied"       // the registry wants other credentials
	CodeAway         = "root_away"         // the registry, or the engine, doesn't answer
	CodeArchitecture = "root_architecture" // the image is for another machine
	CodeDamaged      = "root_damaged"      // it isn't what its digest says, or no proper archive
	CodeTooLarge     = "root_too_large"    // it is beyond the limits
	CodeDisk         = "root_disk"         // the disk is full
	CodeCommand      = "root_command"      // neither the image nor the caller says what to run
	CodeMissing      = "root_missing"      // it isn't where it was kept
)

func refuse(code, hint, format string, a ...any) error {
	err := fmt.Errorf(format, a...)
	return &driver.Error{Kind: driver.Refused, Code: code, Hint: hint, Text: err.Error()}
}

func damaged(format string, a ...any) error {
	return refuse(CodeDamaged, "take it from where it was made once more", format, a...)
}

// full says that a disk is full, if that is what err is.
func full(err error, dir string) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return &driver.Error{
		Kind: driver.Refused, Code: CodeDisk, Err: err,
		Text: fmt.Sprintf("the disk of %s has no room for the root", dir), Hint: "make room there; nothing of the root was kept",
	}
}
