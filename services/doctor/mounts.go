package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Names of the checks that a capture and a restore need.
const (
	NameNamespaces = "namespaces"
	NameOverlay    = "overlay"
	NameSwap       = "swap"
)

var namespaces = []struct {
	name string
	flag int
}{
	{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"net", unix.CLONE_NEWNET},
	{"time", unix.CLONE_NEWTIME}, {"pid", unix.CLONE_NEWPID},
}

// Namespaces checks that each kind of namespace that a session has can be made.
func Namespaces() Check {
	return Check{
		Name: NameNamespaces, What: "each kind of namespace of a session can be made", Needs: []string{NamePrivileges},
		Run: func(context.Context) Result {
			names := []string{"mount"}
			err := isolated(func() error {
				for _, n := range namespaces {
					if err := unix.Unshare(n.flag); err != nil {
						return fmt.Errorf("make a new %s namespace: %w", n.name, err)
					}
					names = append(names, n.name)
				}
				return nil
			})
			if err != nil {
				return failed(err, "use a kernel that has it, and in a container let it make namespaces (docker: --cap-add SYS_ADMIN --security-opt seccomp=unconfined)")
			}
			return okf("%s", strings.Join(names, ", "))
		},
	}
}

// Overlay checks that the file system of the data directory takes a session's own
// layer above the host's root: writing, and removing what is below.
func Overlay(s *Scratch) Check {
	return Check{
		Name: NameOverlay, What: "the data directory's file system takes overlay mounts", Needs: []string{NameNamespaces, NameScratch},
		Run: func(context.Context) Result {
			dir, err := s.Make("overlay")
			if err == nil {
				err = isolated(func() error { return overlay(dir) })
			}
			if err != nil {
				return failed(err, "keep the data directory on ext4, xfs or btrfs (--data), and in a container on a volume, not on the container's own root; the kernel needs the module overlay")
			}
			return okf("a private layer above / works on %s", s.FileSystem())
		},
	}
}

func overlay(dir string) error {
	paths := map[string]string{}
	for _, name := range []string{"lower", "upper", "work", "root"} {
		paths[name] = filepath.Join(dir, name)
		if err := os.Mkdir(paths[name], 0o755); err != nil {
			return fmt.Errorf("make the layers: %w", err)
		}
	}
	// In memory, as a session's middle layer is: / and what lies in it can't both
	// be layers.
	if err := unix.Mount("tmpfs", paths["lower"], "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("make the layers: %w", err)
	}
	if err := os.WriteFile(filepath.Join(paths["lower"], "old"), nil, 0o644); err != nil {
		return fmt.Errorf("make the layers: %w", err)
	}
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace
	options := fmt.Sprintf("lowerdir=%s:/,upperdir=%s,workdir=%s,redirect_dir=off,metacopy=off,index=off",
		escape(paths["lower"]), escape(paths["upper"]), escape(paths["work"]))
	if err := unix.Mount("overlay", paths["root"], "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount an overlay of / and %s: %w", paths["upper"], err)
	}
	defer func() { _ = unix.Unmount(paths["root"], unix.MNT_DETACH) }() // it ends with the namespace
	return useOverlay(paths["root"], paths["upper"])
}

func useOverlay(root, upper string) error {
	if err := os.WriteFile(filepath.Join(root, "new"), []byte("new"), 0o644); err != nil {
		return fmt.Errorf("write in the overlay: %w", err)
	}
	if b, err := os.ReadFile(filepath.Join(upper, "new")); err != nil || string(b) != "new" {
		return fmt.Errorf("find the new file in the upper layer: %q, %w", b, err)
	}
	if err := os.Remove(filepath.Join(root, "old")); err != nil {
		return fmt.Errorf("remove a file of the lower layer: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(upper, "old"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.Join(errors.New("the upper layer doesn't show the removed file"), err)
	}
	return nil
}

// Swap checks that the memory that holds captured sessions can be kept off disks.
func Swap(s *Scratch) Check {
	return Check{
		Name: NameSwap, What: "captured memory stays in memory: no swap can take it", Needs: []string{NameNamespaces, NameScratch},
		Run: func(context.Context) Result {
			dir, err := s.Make("memory")
			if err == nil {
				err = isolated(func() error {
					return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700,size=1m,noswap")
				})
			}
			swaps, readErr := os.ReadFile("/proc/swaps")
			return swap(err, readErr == nil && strings.Count(string(swaps), "\n") <= 1)
		},
	}
}

// swap judges what mounting a tmpfs with noswap gave.
func swap(err error, off bool) Result {
	switch {
	case err == nil:
		return okf("tmpfs with noswap")
	case errors.Is(err, unix.EINVAL) && off:
		return okf("swap is off (this kernel has no tmpfs that stays out of it: leave it off)")
	case errors.Is(err, unix.EINVAL):
		return Result{
			Status: Fail, Detail: "swap is on, and this kernel can't keep a memory file system out of it: what sessions hold could reach the disk",
			Fix: "use Linux 6.4 or newer, or turn swap off (swapoff -a)",
		}
	}
	return failed(fmt.Errorf("mount a memory file system: %w", err), "let the process mount tmpfs (root, CAP_SYS_ADMIN)")
}
