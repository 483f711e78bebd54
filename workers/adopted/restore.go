package adopted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
)

// Restore implements driver.Driver. The image stays what it is if a pid of the tree is taken.
func (d *Driver) Restore(ctx context.Context, f driver.Fence, _ schemas.Spec, source driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	n, err := d.notes.pass(f)
	if err != nil {
		return driver.Instance{}, err
	}
	if boot == schemas.BootFork || boot == schemas.BootTrial {
		return driver.Instance{}, &driver.Error{
			Kind: driver.Refused, Text: fmt.Sprintf("session %s can't be made: an adopted tree needs its own pids", f.Name),
			Hint: "run the program by `diapause run` to have copies of it",
		}
	}
	if n.Phase == here {
		return driver.Instance{}, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s is on this host already", f.Name)}
	}
	if err := d.clear(ctx, n); err != nil {
		return driver.Instance{}, err
	}
	if err := leased(f); err != nil {
		return driver.Instance{}, err
	}
	machine, err := MachineBoot()
	if err != nil {
		return driver.Instance{}, err
	}
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: restoring, Boot: machine, Began: time.Now().UTC()}
	if err := d.notes.set(n); err != nil {
		return driver.Instance{}, err
	}
	if err := d.restore(ctx, f, &n, source, begin); err != nil {
		if n.Phase == here { // it was let run: what is left says what became of it
			d.ends.await(n)
			return driver.Instance{}, err
		}
		return driver.Instance{}, errors.Join(err, d.clear(context.WithoutCancel(ctx), n))
	}
	d.ends.await(n)
	if err := d.dropScratch(f.UID); err != nil {
		return driver.Instance{}, err
	}
	return driver.Instance{UID: n.UID, Name: n.Name, Epoch: n.Epoch, State: driver.Running, PID: n.PID, Started: n.Began}, nil
}

// restore has criu restore the tree. The note says that it is here before it may run.
func (d *Driver) restore(ctx context.Context, f driver.Fence, n *note, source driver.Source, begin func(context.Context) error) error {
	laps := driver.LapsOf(ctx)
	dir, err := d.mountScratch(f.UID)
	if err != nil {
		return err
	}
	if err := fill(ctx, dir, source); err != nil {
		return err
	}
	laps.Mark("fill")
	if err := free(ctx, f.Name, dir); err != nil {
		return err
	}
	g, err := d.hierarchy.Create(groupName(f.UID), cgroup.Limits{})
	if err != nil {
		return err
	}
	p, err := rpc.Start(d.options.Criu, g.Start)
	if err != nil {
		return err
	}
	_, err = p.Restore(rpc.Options{
		ImagesDir: dir, LogLevel: 2, LogFile: logName, FileLocks: true, TCPClose: true,
	}, func(notice rpc.Notice) error {
		if notice.Step != rpc.PostRestore {
			return nil
		}
		if err := begin(ctx); err != nil {
			return err
		}
		root, err := statOf(notice.PID)
		if err != nil {
			return fmt.Errorf("look at restored process %d: %w", notice.PID, err)
		}
		next := *n
		next.Phase, next.PID, next.Start = here, notice.PID, root.Start
		if err := d.notes.set(next); err != nil {
			return err
		}
		*n = next
		return nil
	})
	laps.Mark("criu")
	if err != nil && n.Phase == here {
		return &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s was lost when it ran on; its image is unchanged", f.Name), Err: err}
	}
	return explain(dir, f.Name, "restored", err)
}

// fill puts an image into memory.
func fill(ctx context.Context, dir string, source driver.Source) error {
	if c, ok := source.(driver.Checker); ok {
		if err := c.CheckPacks(ctx); err != nil {
			return err
		}
	}
	to, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open scratch memory: %w", err)
	}
	defer to.Close()
	return layer.Extract(ctx, source, part, to, true)
}

// reapLimit is how long a process of the tree that has ended may wait for its parent: the host's init,
// as a rule, which the end of the tree gave it to.
const reapLimit = 10 * time.Second

// free refuses to restore a tree of which a process or thread has its number taken.
func free(ctx context.Context, name schemas.Name, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, treeFile))
	var of saved
	if err == nil {
		err = json.Unmarshal(b, &of)
	}
	if err != nil {
		return fmt.Errorf("read which pids session %s needs: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, reapLimit)
	defer cancel()
	for _, id := range of.IDs {
		p, err := reaped(ctx, id)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return err
		}
		hint := fmt.Sprintf("end process %d, then `diapause resume %s`", id, name)
		if p.State == 'Z' {
			hint = fmt.Sprintf("have its parent, process %d, wait for it or end, then `diapause resume %s`", p.Parent, name)
		}
		return &driver.Error{
			Kind: driver.Taken, Text: fmt.Sprintf("session %s can't be restored: its pid %d is taken by %s", name, id, p.Comm), Hint: hint,
		}
	}
	return nil
}

// reaped looks at a process, and waits until it is gone if it has ended, as long as ctx lasts.
func reaped(ctx context.Context, pid int) (Process, error) {
	for {
		p, err := statOf(pid)
		if err != nil || p.State != 'Z' {
			return p, err
		}
		select {
		case <-time.After(5 * time.Millisecond): // there is no signal: it is no child of this process
		case <-ctx.Done():
			return p, nil
		}
	}
}
