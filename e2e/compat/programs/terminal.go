package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// step is what is typed, and what must be shown then.
type step struct{ keys, shows string }

// atTerminal attaches, takes the steps, and detaches.
func atTerminal(ctx context.Context, s *local.Session, steps []step) error {
	t, err := s.Attach(ctx)
	if err != nil {
		return err
	}
	for _, st := range steps {
		if err = t.Type(st.keys); err != nil {
			break
		}
		if st.shows == "" {
			continue
		}
		if _, err = t.Wait(ctx, st.shows, patience); err != nil {
			err = fmt.Errorf("after %q: %w", strings.TrimSpace(st.keys), err)
			break
		}
	}
	return errors.Join(err, t.Detach())
}
