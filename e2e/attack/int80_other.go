//go:build !amd64

package attack

// foreign are calls in other conventions than that of this program: this machine has none.
func foreign() []Attempt { return nil }

func i386Here() bool { return false }
