package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/doctor"
	"github.com/diapause/diapause/services/run"
	"github.com/diapause/diapause/workers/canary"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/criu/mends"
)

const doctorHelp = `Find out whether this machine can run Diapause, by trying everything that it takes:
mounts and namespaces, cgroups, the object store, NATS JetStream, and a canary, a
small session that is really dumped and restored. For each thing that is wrong it
says what to do; what depends on it is skipped. It works before the first
"diapause up" and beside a running one, and changes nothing that lasts.

Exit code 0: Diapause can run here, maybe with warnings; 1: it can't.`

// canaryWord on the command line makes this program the canary's.
const canaryWord = "canary-program"

// canaryProgram runs the canary's program, if args ask for it.
func canaryProgram(args []string) (code int, ok bool) {
	if len(args) > 0 && args[0] == canaryWord {
		return canary.Program(args[1:]), true
	}
	return 0, false
}

type doctorFlags struct {
	listen, nats, store, docker, network string
	asJSON                               bool
}

func doctorCommand(c *client) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find out whether this machine can run Diapause", Long: doctorHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(networks, f.network) {
				return usagef("--network %q: want private, host or none", f.network)
			}
			return examine(cmd.Context(), c, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:4222", "address that the embedded NATS server is to have")
	fl.StringVar(&f.nats, "nats", "", "check the NATS server at this URL instead (as --url), with --creds")
	fl.StringVar(&f.store, "store", os.Getenv("DIAPAUSE_STORE"), storeHelp)
	dockerFlag(cmd, &f.docker)
	fl.StringVar(&f.network, "network", schemas.DefaultNetwork, "the network of sessions, as for up: without private ones it fails only if they are to have those")
	fl.BoolVar(&f.asJSON, "json", false, "print the findings as JSON")
	return cmd
}

func examine(ctx context.Context, c *client, f doctorFlags) (err error) {
	scratch, err := doctor.NewScratch(c.data, reclaim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	store := doctor.Store(c.data, scratch)
	if f.store != "" {
		at, err := run.Locate(f.store, c.data, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		store = doctor.NamedStore(at.Name, at.Open)
	}
	checks := doctorChecks(c, f, scratch, store)
	tell := func(doctor.Finding) {}
	if !f.asJSON {
		tell = doctor.TextWriter(os.Stdout, checks)
	}
	report, err := doctor.Run(ctx, version, checks, tell)
	if err != nil {
		return err
	}
	if f.asJSON {
		err = printJSON(report)
	} else {
		_, err = fmt.Fprintln(printed, "\n"+report.Summary())
	}
	if err == nil && !report.OK {
		return exitStatus(exitFailed)
	}
	return err
}

func doctorChecks(c *client, f doctorFlags, scratch *doctor.Scratch, store doctor.Check) []doctor.Check {
	server := doctor.Server{URL: f.nats, Creds: c.creds, Data: c.data}
	if server.URL == "" {
		server.URL = c.url
	}
	return []doctor.Check{
		doctor.Kernel(), doctor.Privileges(), doctor.Capabilities(), doctor.OtherUsers(), doctor.Clock(),
		doctor.DataDirectory(c.data), doctor.Keys(c.data), doctor.Disk(c.data), scratch.Writable(),
		doctor.Namespaces(), doctor.Overlay(scratch), checkLayer(scratch), doctor.Swap(scratch), checkNetwork(f.network), checkCgroups(),
		checkCriu(), checkMends(), checkCanary(scratch), doctor.Userfaultfd(), doctor.FUSE(),
		store, doctor.NATS(server, scratch), doctor.Port(server, f.listen), checkDocker(f.docker, scratch), checkDesktop(),
	}
}

// Names of the checks that are made here.
const (
	nameCgroups = "cgroups"
	nameCriu    = "criu"
)

func fails(err error, fix string) doctor.Result {
	return doctor.Result{Status: doctor.Fail, Detail: err.Error(), Fix: fix}
}

// doctorGroups names this doctor's cgroups, apart from those of others.
func doctorGroups(instance string) string { return "diapause/" + instance }

func checkCgroups() doctor.Check {
	return doctor.Check{
		Name: nameCgroups, What: "cgroups can freeze, limit and count sessions", Needs: []string{doctor.NamePrivileges},
		Run: func(context.Context) doctor.Result {
			h, err := cgroup.Open(doctorGroups(fmt.Sprintf("doctor-%d", os.Getpid())))
			if err != nil {
				return fails(err, "mount cgroups writable, version 2 or version 1 with the freezer; in a container: a writable /sys/fs/cgroup and a cgroup namespace of its own")
			}
			facts := h.Check()
			if err := h.Remove(); err != nil {
				return fails(err, "make /sys/fs/cgroup writable")
			}
			return judgeCgroups(facts)
		},
	}
}

// judgeCgroups: without the freezer there is no group at all; what else is
// missing costs a feature.
func judgeCgroups(facts []cgroup.Fact) doctor.Result {
	var have, missing, fixes []string
	for _, f := range facts {
		if f.OK {
			have = append(have, strings.TrimPrefix(f.Name, "cgroup "))
			continue
		}
		missing, fixes = append(missing, f.Name+" "+f.Detail), append(fixes, f.Fix)
	}
	if len(missing) > 0 {
		return doctor.Result{Status: doctor.Warn, Detail: strings.Join(missing, "\n"), Fix: strings.Join(fixes, "; ")}
	}
	return doctor.Result{Status: doctor.OK, Detail: strings.Join(have[1:], ", ") + " (" + facts[0].Detail + ")"}
}

const criuFix = "run `make setup`, or /usr/lib/diapause/criu/install/install.sh of the package, which puts criu 4.2 or newer into /opt/diapause and touches nothing else; or name one that works by DIAPAUSE_CRIU"

func checkCriu() doctor.Check {
	return doctor.Check{Name: nameCriu, What: "criu 4.2 or newer is found and runs", Run: func(ctx context.Context) doctor.Result {
		command, err := criu.Find()
		if err != nil {
			return fails(err, criuFix)
		}
		v, err := criu.Version(ctx, command)
		if err != nil {
			return fails(err, criuFix)
		}
		return doctor.Result{Status: doctor.OK, Detail: "criu " + v + ", " + command[len(command)-1]}
	}}
}

// checkMends looks for what our patches add to CRIU.
func checkMends() doctor.Check {
	return doctor.Check{Name: "criu-mends", What: "criu brings back what it loses as it is released", Needs: []string{nameCriu}, Run: func(context.Context) doctor.Result {
		command, err := criu.Find()
		if err != nil {
			return fails(err, criuFix)
		}
		if lacks := mends.Missing(command); len(lacks) > 0 {
			return doctor.Result{
				Status: doctor.Warn, Detail: "criu lacks " + strings.Join(lacks, ", "),
				Fix: "run `make setup`, or /usr/lib/diapause/criu/install/build.sh of the package, which builds it beside the one that is there; criu/patches/README.md says what each is for",
			}
		}
		return doctor.Result{Status: doctor.OK, Detail: strings.Join(mends.All, ", ")}
	}}
}

// checkDocker looks for the engine that `up` would use. A host without one is no worse for
// sessions that are process trees.
func checkDocker(asked string, scratch *doctor.Scratch) doctor.Check {
	return doctor.Check{
		Name: "docker", What: "the Docker engine whose containers can be sessions answers", Needs: []string{doctor.NameScratch},
		Run: func(ctx context.Context) doctor.Result {
			engine, why := docker.Locate(asked)
			if engine == "" {
				return doctor.Result{Status: doctor.OK, Detail: "no containers here: " + why}
			}
			what, err := describeEngine(ctx, engine, scratch)
			if err != nil {
				return doctor.Result{Status: doctor.Warn, Detail: err.Error(), Fix: "start it, or name another by --docker, or none by --docker none: until then no container can be a session here"}
			}
			return doctor.Result{Status: doctor.OK, Detail: what + ", " + engine}
		},
	}
}

// describeEngine tells an engine's version and how it keeps containers' files.
func describeEngine(ctx context.Context, engine string, scratch *doctor.Scratch) (what string, err error) {
	data, err := scratch.Make("docker")
	if err != nil {
		return "", err
	}
	d, err := docker.New(docker.Options{Engine: engine, Data: data, Instance: "doctor"})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	fp, err := d.Fingerprint(ctx)
	if err != nil {
		return "", err
	}
	store, err := d.Storage(ctx)
	return strings.Replace(fp.Engine, "-", " ", 1) + ", " + store, err
}

// canaryDir is where the canary's driver has its data, in the scratch directory.
const canaryDir = "canary"

func checkCanary(scratch *doctor.Scratch) doctor.Check {
	return doctor.Check{
		Name: "canary", What: "a session with a terminal, a TCP listener, a child and memory is dumped and restored",
		Needs: []string{
			doctor.NamePrivileges, doctor.NameCapabilities, doctor.NameNamespaces, doctor.NameOverlay, doctor.NameSwap, nameCgroups, nameCriu,
		},
		Run: func(ctx context.Context) doctor.Result {
			return canaryFinding(func(own bool) (canary.Report, error) { return runCanary(ctx, scratch, own) })
		},
	}
}

// canaryFinding runs the canary with this machine's root, and if that fails with one of its own: in a container
// the root is a layered one, which sessions with another don't need.
func canaryFinding(run func(own bool) (canary.Report, error)) doctor.Result {
	report, err := run(false)
	if err == nil {
		return canaryResult(report)
	}
	report, otherErr := run(true)
	if otherErr != nil {
		return fails(fmt.Errorf("%w; with a root of its own: %w", err, otherErr), "see what it says; if it says nothing that helps, upgrade criu (criu/install/install.sh --upgrade), and report it with the output of `diapause doctor --json`")
	}
	result := canaryResult(report)
	result.Status = doctor.Warn
	result.Detail = fmt.Sprintf("only with a root of its own: %s; with this machine's: %v", result.Detail, err)
	result.Fix = "give sessions a root on another file system: run --root DIR, or --root oci:IMAGE"
	return result
}

func canaryResult(r canary.Report) doctor.Result {
	detail := fmt.Sprintf("%.1f MB dumped in %s (frozen within %s), restored in %s; its terminal, listener, child and memory are as they were",
		float64(r.Bytes)/1e6, r.Dump.Round(time.Millisecond), r.Freeze.Round(100*time.Microsecond), r.Restore.Round(time.Millisecond))
	result := doctor.Result{Status: doctor.OK, Detail: detail, Measured: map[string]int64{
		"start_ms": r.Start.Milliseconds(), "dump_ms": r.Dump.Milliseconds(), "restore_ms": r.Restore.Milliseconds(),
		"bytes": r.Bytes, "attempts": int64(r.Attempts),
	}}
	if r.Attempts > 1 {
		result.Status = doctor.Warn
		result.Detail += fmt.Sprintf(" (at attempt %d)", r.Attempts)
		result.Fix = "run it again; if that comes often, report it"
	}
	return result
}

func runCanary(ctx context.Context, scratch *doctor.Scratch, own bool) (r canary.Report, err error) {
	data, err := scratch.Make(canaryDir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	root, err := scratch.Make("root")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	drv, instance, err := canaryDriver(data)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, removeGroups(instance)) }()
	return canary.Run(ctx, drv, canary.Options{Words: []string{canaryWord}, Root: root, Own: own})
}

// canaryDriver makes a driver for a canary's data directory, with cgroups that
// can be found again by the directory's name.
func canaryDriver(data string, command ...string) (*criu.Driver, string, error) {
	scratch := filepath.Base(filepath.Dir(data))
	instance := "doctor-" + scratch[strings.LastIndex(scratch, "-")+1:]
	drv, err := criu.New(criu.Options{Data: data, Instance: instance, Criu: command})
	return drv, instance, err
}

func removeGroups(instance string) error {
	h, err := cgroup.Open(doctorGroups(instance))
	if err != nil {
		return err
	}
	return h.Remove()
}

// reclaim ends the canary that a doctor left when it was killed.
func reclaim(ctx context.Context, dir string) error {
	data := filepath.Join(dir, canaryDir)
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Nothing is dumped or restored here, so it needn't be a criu that works.
	drv, instance, err := canaryDriver(data, "criu")
	if err != nil {
		return err
	}
	left, err := drv.Recover(ctx)
	if err != nil {
		return err
	}
	for _, i := range left {
		if err := drv.Stop(ctx, driver.Fence{UID: i.UID, Name: i.Name, Epoch: i.Epoch}); err != nil {
			return err
		}
	}
	return removeGroups(instance)
}
