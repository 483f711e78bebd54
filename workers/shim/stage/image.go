package stage

import (
	"errors"
	"fmt"
	"os"
)

const hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"

// completeImage makes what container engines put into each container: a place for temporary files,
// and the names of its own addresses.
func completeImage() error {
	if err := os.Mkdir("/tmp", 0o700); err == nil {
		if err := os.Chmod("/tmp", 0o777|os.ModeSticky); err != nil {
			return fmt.Errorf("make /tmp: %w", err)
		}
	} else if !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make /tmp: %w", err)
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return fmt.Errorf("make /etc: %w", err)
	}
	if st, err := os.Stat("/etc/hosts"); err == nil && st.Size() > 0 {
		return nil
	}
	// A link to nothing has no place for it, which is no reason not to start.
	content := hosts
	if name, err := os.Hostname(); err == nil {
		content += "127.0.1.1\t" + name + "\n"
	}
	if err := os.WriteFile("/etc/hosts", []byte(content), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("make /etc/hosts: %w", err)
	}
	return nil
}
