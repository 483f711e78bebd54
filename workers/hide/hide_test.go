package hide

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// host makes files below a directory, which it returns without symlinks: a name with a slash at
// its end is a directory.
func host(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		at := filepath.Join(dir, name)
		if name[len(name)-1] == '/' {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("secret"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInside(t *testing.T) {
	dir := host(t, "root/etc/creds", "root/srv/store/object", "root/home/", "beside/key", "root-like/key")
	link := func(to, from string) {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	link("root/etc", "link")
	link("creds", "root/etc/current")
	link("nowhere", "root/etc/dangling")
	at := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(dir, n))
		}
		return all
	}
	for _, c := range []struct {
		hidden []string
		want   []Path
	}{
		{at("root/etc/creds"), []Path{{"etc/creds", File}}},
		{at("link/current"), []Path{{"etc/creds", File}}},
		{at("root/srv/store", "root/srv/store/object", "link/creds"), []Path{{"etc/creds", File}, {"srv/store", Dir}}},
		{at("root/home/me/.aws/credentials"), []Path{{"home/me", None}}},
		{at("root/etc/dangling"), []Path{{"etc/dangling", File}}},
		{at("root/etc/creds/below"), []Path{{"etc/creds", File}}},
		{at("beside/key", "root-like/key", "root/../beside"), nil},
		{at("link/creds", "root/etc/creds"), []Path{{"etc/creds", File}}},
	} {
		got, err := Inside(filepath.Join(dir, "root"), c.hidden)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("of %v a root has %v, want %v, %v", c.hidden, got, c.want, err)
		}
	}
	for _, root := range []string{"root/srv/store", "root/srv/store/object"} {
		if got, err := Inside(filepath.Join(dir, root), at("root/srv/store")); !errors.Is(err, ErrWithin) {
			t.Errorf("a root in what is hidden gives %v, %v", got, err)
		}
	}
}

// What is hidden is found behind bind mounts, and what another file system is mounted over.
func TestInsideBehindMounts(t *testing.T) {
	dir := host(t, "root/etc/creds", "root/data/old", "bind here/", "base/", "beside/key")
	at := func(name string) string { return filepath.Join(dir, name) }
	err := thread.Mounts(func() error {
		err := errors.Join(unix.Mount(at("root/etc"), at("bind here"), "", unix.MS_BIND, ""),
			unix.Mount(at("root"), at("base"), "", unix.MS_BIND, ""),
			unix.Mount("tmpfs", at("root/data"), "tmpfs", 0, ""),
			os.WriteFile(at("root/data/key"), nil, 0o600))
		if err != nil {
			return err
		}
		for _, c := range []struct {
			root   string
			hidden []string
			want   []Path
		}{
			{"root", []string{"bind here/creds"}, []Path{{"etc/creds", File}}},
			{"base", []string{"bind here/creds"}, []Path{{"etc/creds", File}}},
			{"base", []string{"root/etc/creds"}, []Path{{"etc/creds", File}}},
			{"base", []string{"beside/key"}, nil},
			{"root", []string{"root/data"}, []Path{{"data", Dir}}},
			{"root", []string{"root/data/key"}, nil},
		} {
			var hidden []string
			for _, h := range c.hidden {
				hidden = append(hidden, at(h))
			}
			got, err := Inside(at(c.root), hidden)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("of %v %s has %v, want %v, %v", c.hidden, c.root, got, c.want, err)
			}
		}
		if got, err := Inside(at("bind here"), []string{at("root/etc")}); !errors.Is(err, ErrWithin) {
			t.Errorf("a root that is a bind mount of what is hidden gives %v, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A covered root shows nothing of what is hidden, and all else as it was. Covered again, for
// other paths, it shows what isn't hidden any more, and what stays hidden has the same numbers.
func TestCover(t *testing.T) {
	dir := host(t, "root/etc/creds", "root/etc/motd", "root/srv/store/object", "root/home/me/file", "own/upper/", "own/work/", "own/hidden/", "merged/", "memory/")
	if err := os.Chmod(filepath.Join(dir, "root/srv"), 0o751); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	look := func(hidden []Path, do func()) error {
		if err := Cover(at("memory"), at("root"), hidden); err != nil {
			return err
		}
		err := unix.Mount("overlay", at("merged"), "overlay", 0, "lowerdir="+at("memory")+":"+at("root")+",upperdir="+at("own/upper")+",workdir="+at("own/work"))
		if err != nil {
			return err
		}
		do()
		return unix.Unmount(at("merged"), 0)
	}
	var before, after unix.Stat_t
	err := thread.Mounts(func() error {
		if err := unix.Mount("tmpfs", at("memory"), "tmpfs", 0, ""); err != nil {
			return err
		}
		err := look([]Path{{"etc/creds", File}, {"home/you", None}, {"srv/store", Dir}}, func() {
			if b, err := os.ReadFile(at("merged/etc/creds")); err != nil || len(b) > 0 {
				t.Errorf("a hidden file has %q, %v", b, err)
			}
			if left, err := os.ReadDir(at("merged/srv/store")); err != nil || len(left) > 0 {
				t.Errorf("a hidden directory has %v, %v", left, err)
			}
			if err := os.MkdirAll(at("root/home/you/.aws"), 0o755); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(at("merged/home/you")); err == nil {
				t.Error("what came later isn't hidden")
			}
			for _, name := range []string{"etc/motd", "home/me/file"} {
				if b, err := os.ReadFile(at("merged/" + name)); err != nil || string(b) != "secret" {
					t.Errorf("%s has %q, %v", name, b, err)
				}
			}
			if st, err := os.Stat(at("merged/srv")); err != nil || st.Mode().Perm() != 0o751 {
				t.Errorf("the directory of what is hidden is %v, %v", st, err)
			}
			// It stays hidden when the session has made something there itself.
			if err := errors.Join(os.WriteFile(at("merged/srv/store/own"), nil, 0o644), os.Remove(at("merged/etc/creds"))); err != nil {
				t.Error(err)
			}
			if err := unix.Stat(at("memory/srv"), &before); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			return err
		}
		return look([]Path{{"etc/motd", File}, {"srv/store", Dir}}, func() {
			if _, err := os.Stat(at("merged/home/you/.aws")); err != nil {
				t.Errorf("what isn't hidden any more: %v", err)
			}
			if left, err := os.ReadDir(at("merged/srv/store")); err != nil || len(left) != 1 {
				t.Errorf("a hidden directory has %v, %v", left, err)
			}
			if b, err := os.ReadFile(at("merged/etc/motd")); err != nil || len(b) > 0 {
				t.Errorf("a hidden file has %q, %v", b, err)
			}
			if err := unix.Stat(at("memory/srv"), &after); err != nil || after.Ino != before.Ino {
				t.Errorf("a directory has the number %d, and had %d", after.Ino, before.Ino)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
