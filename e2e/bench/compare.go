package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/objectstore/storetest/server"
)

// Cost is what one way of storing took for one state of a process.
type Cost struct {
	MB    int
	What  string // first, or how much has changed since
	Who   string // diapause, tar, restic
	Round int
	used
	Dump    time.Duration // until criu has everything; 0 where that is stored meanwhile
	Durable time.Duration // from the freeze until the last object is stored
	Stored  int64         // bytes that the store grew by
	Changed int64         // compressed size of what has changed, if not first
	Alone   time.Duration // what zstd and age take for these images with nothing else, if measured
}

// Change is a part of the memory that is written to again.
type Change struct {
	Name string
	Nth  int // every Nth page
}

// Load is a process and what it does between suspends.
type Load struct {
	MB      int
	Changes []Change
}

// comparison is what all ways have in common.
type comparison struct {
	tools  Tools
	hold   string
	dir    string
	bucket *bucket
	daemon *local.Daemon
	tell   func(Cost)
}

// Compare measures every load that many rounds, in all ways.
func Compare(ctx context.Context, loads []Load, rounds int, tell func(Cost)) (err error) {
	if _, err := exec.LookPath("restic"); err != nil {
		return fmt.Errorf("%w: run e2e/bench/install.sh", err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "diapause-bench-")
	if err != nil {
		return fmt.Errorf("make a scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &comparison{dir: dir, hold: filepath.Join(dir, "hold"), tell: tell}
	binary, err := local.Binary(dir)
	if err == nil {
		err = local.Build(ctx, "e2e", "./bench/hold", c.hold)
	}
	if err == nil {
		c.tools, err = Install(ctx, dir)
	}
	if err == nil {
		c.bucket, err = startBucket(ctx, filepath.Join(dir, "server"))
	}
	if err != nil {
		return err
	}
	defer c.bucket.Kill()
	c.daemon, err = local.StartWith(ctx, binary, dir, server.Environment(), "--store", c.bucket.URL("diapause"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.daemon.Stop(context.WithoutCancel(ctx))) }()
	for _, load := range loads {
		for round := range rounds {
			if err := c.round(ctx, load, round); err != nil {
				return fmt.Errorf("%d MB, round %d: %w", load.MB, round+1, err)
			}
		}
	}
	return nil
}

func (c *comparison) round(ctx context.Context, load Load, round int) error {
	if err := c.withDiapause(ctx, load, round); err != nil {
		return fmt.Errorf("diapause: %w", err)
	}
	if err := c.withImages(ctx, load, round); err != nil {
		return fmt.Errorf("by hand: %w", err)
	}
	return nil
}

// withDiapause suspends a session, and again after each change.
func (c *comparison) withDiapause(ctx context.Context, load Load, round int) (err error) {
	s, err := start(ctx, c.daemon, c.hold, load.MB, fmt.Sprintf("compare-%d-%d", load.MB, round))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	for i, change := range append([]Change{{Name: "first"}}, load.Changes...) {
		cost := Cost{MB: load.MB, What: change.Name, Who: "diapause", Round: round}
		if i > 0 {
			if _, err := s.Ensure(ctx); err != nil {
				return err
			}
			if _, err := s.Exec(ctx, "", inside, "ask", atSocket, fmt.Sprint("touch ", change.Nth)); err != nil {
				return err
			}
		}
		if err := c.suspend(ctx, s, &cost); err != nil {
			return err
		}
		if i > 0 {
			if cost.Changed, err = c.changed(ctx, load.MB, change.Nth, i); err != nil {
				return err
			}
		}
		c.tell(cost)
	}
	return nil
}

func (c *comparison) suspend(ctx context.Context, s *local.Session, cost *Cost) error {
	before, err := c.bucket.size(ctx, "diapause/")
	if err != nil {
		return err
	}
	m, err := startMeter(c.bucket.PID())
	if err != nil {
		return err
	}
	_, err = s.Suspend(ctx)
	var meterErr error
	if cost.used, meterErr = m.end(); err != nil || meterErr != nil {
		return errors.Join(err, meterErr)
	}
	after, err := c.bucket.size(ctx, "diapause/")
	if err != nil {
		return err
	}
	cost.Stored = after - before
	took, err := stages(ctx, s, "suspended")
	if err != nil {
		return err
	}
	one := Measurement{Stages: took}
	cost.Durable, _ = one.took("frozen")
	if _, streamed := one.took("stream"); !streamed { // else the dump isn't over before all is stored
		cost.Dump, _ = one.took("capture")
	}
	return nil
}

// changed is how large the pages of a touch are when zstd has compressed them.
func (c *comparison) changed(ctx context.Context, mb, nth, times int) (int64, error) {
	line := fmt.Sprintf("%s changed %d %d %d | zstd -q -1 | wc -c", c.hold, mb, nth, times)
	out, err := exec.CommandContext(ctx, "/bin/bash", "-o", "pipefail", "-c", line).Output()
	if err != nil {
		return 0, fmt.Errorf("compress what has changed: %w", err)
	}
	return strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
}

// withImages dumps a process, which runs on, and stores its images in the other
// ways: a tar of them is stored as a whole each time, restic stores what it
// hasn't.
func (c *comparison) withImages(ctx context.Context, load Load, round int) (err error) {
	p := process{t: c.tools, dir: filepath.Join(c.dir, "process"), hold: c.hold}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := p.start(ctx, load.MB); err != nil {
		return err
	}
	repository := fmt.Sprintf("restic-%d-%d", load.MB, round)
	if err := c.shell(ctx, c.restic(repository)+" init"); err != nil {
		return err
	}
	for i, change := range append([]Change{{Name: "first"}}, load.Changes...) {
		if i > 0 {
			if _, err := p.ask(ctx, fmt.Sprint("touch ", change.Nth)); err != nil {
				return err
			}
		}
		tar := Cost{MB: load.MB, What: change.Name, Who: "tar", Round: round}
		if err := c.store(ctx, p, &tar, fmt.Sprintf("tar-%d-%d-%d", load.MB, round, i), c.tarred); err != nil {
			return err
		}
		if tar.Alone, err = c.alone(ctx, p); err != nil {
			return err
		}
		c.tell(tar)
		restic := Cost{MB: load.MB, What: change.Name, Who: "restic", Round: round}
		if err := c.store(ctx, p, &restic, repository, c.backedUp); err != nil {
			return err
		}
		c.tell(restic)
	}
	return nil
}

// store dumps the process and stores its images below prefix.
func (c *comparison) store(ctx context.Context, p process, cost *Cost, prefix string, how func(context.Context, process, string) error) error {
	images := p.file("images")
	if err := errors.Join(os.RemoveAll(images), os.Mkdir(images, 0o700)); err != nil {
		return fmt.Errorf("empty the directory of images: %w", err)
	}
	before, err := c.bucket.size(ctx, prefix)
	if err != nil {
		return err
	}
	m, err := startMeter(c.bucket.PID())
	if err != nil {
		return err
	}
	err = c.shell(ctx, fmt.Sprintf("%s dump -t %d -D %s --leave-running --manage-cgroups=ignore -o log -v1", local.Criu(), p.pid, images))
	cost.Dump = time.Since(m.begin)
	if err == nil {
		err = how(ctx, p, prefix)
	}
	var meterErr error
	if cost.used, meterErr = m.end(); err != nil || meterErr != nil {
		return errors.Join(err, meterErr)
	}
	cost.Durable = cost.Took
	after, err := c.bucket.size(ctx, prefix)
	cost.Stored = after - before
	return err
}

// tarred is what people write by hand, to an object that is stored as it comes.
func (c *comparison) tarred(ctx context.Context, p process, name string) error {
	line := fmt.Sprintf("tar -C %s -c . | zstd -q -1 -T2 | %s -r %s", p.file("images"), c.tools.age, c.tools.recipient)
	cmd := exec.CommandContext(ctx, "/bin/bash", "-o", "pipefail", "-c", line)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the pipeline: %w", err)
	}
	stored := c.bucket.put(ctx, name, out)
	_, _ = io.Copy(io.Discard, out) // of a failed put: the pipeline must end
	if err := cmd.Wait(); err != nil {
		return errors.Join(stored, fmt.Errorf("the pipeline: %w: %s", err, said.String()))
	}
	return stored
}

func (c *comparison) restic(repository string) string {
	return fmt.Sprintf("AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s RESTIC_PASSWORD=bench restic -q --cache-dir %s -r s3:http://%s/%s/%s",
		server.AccessKey, server.SecretKey, filepath.Join(c.dir, "restic"), c.bucket.Address(), server.Bucket, repository)
}

func (c *comparison) backedUp(ctx context.Context, p process, repository string) error {
	return c.shell(ctx, c.restic(repository)+" backup "+p.file("images"))
}

// alone is how long zstd and age take for the images that were dumped last.
func (c *comparison) alone(ctx context.Context, p process) (time.Duration, error) {
	begin := time.Now()
	err := c.shell(ctx, fmt.Sprintf("cat %s/* | zstd -q -1 -T2 | %s -r %s >/dev/null", p.file("images"), c.tools.age, c.tools.recipient))
	return time.Since(begin), err
}

func (c *comparison) shell(ctx context.Context, line string) error {
	if out, err := exec.CommandContext(ctx, "/bin/bash", "-o", "pipefail", "-c", line).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}
