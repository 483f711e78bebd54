package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/e2e/compat/local"
)

// scratch makes a directory, which its caller deletes, and builds the program in it.
func scratch() (dir, binary string, err error) {
	if dir, err = os.MkdirTemp("", "diapause-bench-"); err != nil {
		return "", "", fmt.Errorf("make a scratch directory: %w", err)
	}
	if binary, err = local.Binary(dir); err != nil {
		return "", "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, binary, nil
}

// Run measures every size that many rounds and tells each measurement as it is
// made.
func Run(ctx context.Context, megabytes []int, rounds int, tell func(Measurement) error) (all []Measurement, err error) {
	dir, binary, err := scratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	hold := filepath.Join(dir, "hold")
	if err := local.Build(ctx, "e2e", "./bench/hold", hold); err != nil {
		return nil, err
	}
	tools, err := Install(ctx, dir)
	if err != nil {
		return nil, err
	}
	d, err := local.Start(ctx, binary, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	for _, mb := range megabytes {
		for round := range rounds {
			some, err := Session(ctx, d, hold, mb, fmt.Sprintf("hold-%d-%d", mb, round))
			if err != nil {
				return all, err
			}
			more, err := Today(ctx, tools, hold, mb, filepath.Join(dir, "today"))
			if err != nil {
				return all, fmt.Errorf("what people do today, %d MB: %w", mb, err)
			}
			for _, m := range append(some, more...) {
				all = append(all, m)
				if err := tell(m); err != nil {
					return all, err
				}
			}
		}
	}
	return all, nil
}
