package docker

import (
	"os"
	"strings"
)

// DefaultEngine is where Docker's engine listens unless it was configured otherwise.
const DefaultEngine = "unix:///var/run/docker.sock"

// Locate gives the address of the engine to use: the one that was asked for, none for "none",
// and otherwise the default one if it is there. Without an address lack says why.
func Locate(asked string) (address, lack string) {
	switch asked {
	case "none":
		return "", "`--docker none` was asked for"
	case "":
		if _, err := os.Stat(strings.TrimPrefix(DefaultEngine, "unix://")); err != nil {
			return "", "no Docker engine was at " + DefaultEngine + " (`--docker` names another)"
		}
		return DefaultEngine, ""
	}
	return asked, ""
}
