package rootfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
)

// blobsOf are the blobs that an image of a session keeps.
type blobsOf struct {
	t     *testing.T
	files map[v1.Hash]string
}

func keep(t *testing.T, r Root) blobsOf {
	t.Helper()
	all, err := r.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	kept := blobsOf{t, map[v1.Hash]string{}}
	dir := t.TempDir()
	for _, b := range all {
		kept.files[b.Digest] = filepath.Join(dir, b.Digest.Hex)
		content := read(t, b.File)
		if int64(len(content)) != b.Size {
			t.Errorf("blob %s has %d bytes, and is said to have %d", b.Digest, len(content), b.Size)
		}
		if err := os.WriteFile(kept.files[b.Digest], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return kept
}

func (b blobsOf) Open(digest v1.Hash) (io.ReadCloser, error) {
	name, ok := b.files[digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return os.Open(name)
}

// A root is what its tag meant when the session started. Another host makes the same of what
// the session's image keeps, without the registry.
func TestPinned(t *testing.T) {
	reg := serve(t)
	first := imageOf(t, v1.Config{Entrypoint: []string{"/bin/one"}, Cmd: []string{"x"}}, layerOf(t, regular("which", "first")))
	ref := reg.push(t, "a/b:1", first)
	here := store(t)
	root, err := here.Start(t.Context(), user("u1"), ref)
	if err != nil {
		t.Fatal(err)
	}
	if root.Digest != digestOf(t, first) || root.Ref != ref || read(t, root.Tree, "which") != "first" || strings.Join(root.Config.Command, " ") != "/bin/one x" {
		t.Errorf("the root is %+v", root)
	}
	reg.push(t, "a/b:1", imageOf(t, v1.Config{}, layerOf(t, regular("which", "second"))))
	again, err := here.Restore(t.Context(), withPin(user("u1"), root.Pin), nil)
	if err != nil || again.Tree != root.Tree {
		t.Errorf("the root is %+v later, %v", again, err)
	}
	second, err := here.Start(t.Context(), user("u2"), ref)
	if err != nil || read(t, second.Tree, "which") != "second" {
		t.Errorf("the tag means %+v now, %v", second, err)
	}

	there := store(t)
	moved, err := there.Restore(t.Context(), withPin(user("u1"), root.Pin), keep(t, root))
	if err != nil || read(t, moved.Tree, "which") != "first" {
		t.Errorf("another host has %+v, %v", moved, err)
	}
	found, ok, err := open(t, there.dir).Of("u1")
	if err != nil || !ok || found.Tree != moved.Tree || found.Pin != root.Pin {
		t.Errorf("the next process finds %+v, %v, %v", found, ok, err)
	}
}

func withPin(u User, p Pin) User {
	u.Pin = p
	return u
}

// An image may be in a file, alone or among those of other machines.
func TestPlaces(t *testing.T) {
	img := imageOf(t, v1.Config{}, layerOf(t, regular("which", "this")))
	tag, err := name.NewTag("which:1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := tarball.WriteToFile(filepath.Join(dir, "saved.tar"), tag, img); err != nil {
		t.Fatal(err)
	}
	var index v1.ImageIndex = empty.Index
	for arch, one := range map[string]v1.Image{"vax": imageOf(t, v1.Config{}), runtime.GOARCH: img} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	if _, err := layout.Write(filepath.Join(dir, "layout"), index); err != nil {
		t.Fatal(err)
	}
	reg := serve(t)
	many, err := name.ParseReference(reg.host + "/many:1")
	if err == nil {
		err = remote.WriteIndex(many, index)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := store(t)
	for _, ref := range []string{"tar:" + dir + "/saved.tar", "layout:" + dir + "/layout", many.String(), many.Context().String() + "@" + digestOf(t, img)} {
		root, err := s.Start(t.Context(), user("u"), ref)
		if err != nil || read(t, root.Tree, "which") != "this" {
			t.Errorf("%s is %+v, %v", ref, root, err)
		}
	}
}

// What can't be had is refused with what to do, and leaves nothing.
func TestRefused(t *testing.T) {
	reg := serve(t)
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("text", "no archive at all")
	one, two := imageOf(t, v1.Config{}, layerOf(t, regular("a", "a"))), imageOf(t, v1.Config{}, layerOf(t, regular("b", "b")))
	if err := tarball.MultiWriteToFile(filepath.Join(dir, "two.tar"), map[name.Tag]v1.Image{mustTag(t, "one:1"): one, mustTag(t, "two:1"): two}); err != nil {
		t.Fatal(err)
	}
	other, err := mutate.ConfigFile(one, configFile(t, one, v1.Config{}, "vax"))
	if err != nil {
		t.Fatal(err)
	}
	vax := reg.push(t, "vax:1", other)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "vax"}}})
	if _, err := layout.Write(filepath.Join(dir, "vaxes"), index); err != nil {
		t.Fatal(err)
	}
	reg.wrong["/v2/private/manifests/1"] = http.StatusUnauthorized
	reg.wrong["/v2/broken/manifests/1"] = http.StatusTeapot
	for ref, c := range map[string]struct {
		code, says string
		kind       driver.Kind
	}{
		"Not An Image":             {CodeReference, "names no image", driver.Refused},
		"":                         {CodeReference, "names no image", driver.Refused},
		"tar:":                     {CodeReference, "names no image", driver.Refused},
		"tar:relative":             {CodeReference, "must be absolute", driver.Refused},
		"tar:" + dir + "/none":     {CodeNotFound, "no such file", driver.Refused},
		"tar:" + dir + "/text":     {CodeDamaged, "is no archive", driver.Refused},
		"tar:" + dir + "/two.tar":  {CodeReference, "has 2 images", driver.Refused},
		"layout:" + dir + "/none":  {CodeNotFound, "no such file", driver.Refused},
		"layout:" + dir + "/vaxes": {CodeArchitecture, runtime.GOARCH, driver.Refused},
		vax:                        {CodeArchitecture, "linux/vax", driver.Refused},
		reg.host + "/no/such:1":    {CodeNotFound, "has no image", driver.Refused},
		reg.host + "/private:1":    {CodeDenied, "docker login", driver.Refused},
		reg.host + "/broken:1":     {CodeAway, "can't be asked", driver.Transient},
		"127.0.0.1:1/any:1":        {CodeAway, "can't be asked", driver.Transient},
	} {
		t.Run(strings.ReplaceAll(ref, "/", "|"), func(t *testing.T) {
			s := store(t)
			_, err := s.Start(t.Context(), user("u"), ref)
			if driver.CodeOf(err) != c.code || driver.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "connection refused") > 1 {
				t.Errorf("got %q of kind %s and code %q, want %q, %s and %s", err, driver.KindOf(err), driver.CodeOf(err), c.says, c.kind, c.code)
			}
			empties(t, s)
		})
	}
}

func mustTag(t *testing.T, s string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(s)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// However many sessions start at once, on however many processes, a root is fetched once.
func TestOnce(t *testing.T) {
	reg := serve(t)
	img, err := random.Image(1<<20, 2)
	if err != nil {
		t.Fatal(err)
	}
	ref := reg.push(t, "random:1", img)
	dir := filepath.Join(t.TempDir(), "roots")
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			s, err := Open(dir, "")
			if err == nil {
				_, err = s.Start(context.Background(), user("u"+string(rune('a'+i))), ref)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil || reg.blobs[digest.String()] != 1 {
			t.Errorf("layer %s was fetched %d times, %v", digest, reg.blobs[digest.String()], err)
		}
	}
	users, err := open(t, dir).Users()
	if err != nil || len(users) != 6 {
		t.Errorf("the users are %v, %v", users, err)
	}
}

// A root goes with the last session that needs it.
func TestRelease(t *testing.T) {
	reg := serve(t)
	s := store(t)
	ref := reg.push(t, "one:1", imageOf(t, v1.Config{}, layerOf(t, regular("a", "a"))))
	var root Root
	for _, uid := range []string{"u1", "u2"} {
		var err error
		if root, err = s.Start(t.Context(), user(uid), ref); err != nil {
			t.Fatal(err)
		}
	}
	for i, uid := range []string{"u1", "unknown", "u2", "u2"} {
		if err := s.Release(schemas.UID(uid)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(root.Tree); errors.Is(err, fs.ErrNotExist) != (i >= 2) {
			t.Errorf("after %d releases the root's directory: %v", i+1, err)
		}
	}
	empties(t, s)
	if _, ok, err := s.Of("u2"); ok || err != nil {
		t.Errorf("the released root is there: %v, %v", ok, err)
	}
}

// What can't be read of who uses roots removes none, and keeps nothing from being started.
func TestUnreadableUser(t *testing.T) {
	reg := serve(t)
	s := store(t)
	root, err := s.Start(t.Context(), user("u1"), reg.push(t, "one:1", imageOf(t, v1.Config{}, layerOf(t, regular("a", "a")))))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.userFile("u1"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.dir)
	other, err := s.Start(t.Context(), user("u2"), reg.push(t, "two:1", imageOf(t, v1.Config{}, layerOf(t, regular("b", "b")))))
	if err != nil || read(t, other.Tree, "b") != "b" || read(t, root.Tree, "a") != "a" {
		t.Errorf("another root is %+v, %v", other, err)
	}
	if _, _, err := s.Of("u1"); err == nil {
		t.Error("which root that session uses is known")
	}
	if err := s.Release("u1"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root.Tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("when all is known again the unused root is there: %v", err)
	}
}

// A full disk is an error that says so, and nothing of the root stays on it.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	reg := serve(t)
	fits, err := random.Image(1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 6<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise) // never fails
	large := imageOf(t, v1.Config{}, layerOf(t, regular("noise", string(noise))))
	s := open(t, filepath.Join(disk, "roots"))
	_, err = s.Start(t.Context(), user("u"), reg.push(t, "large:1", large))
	if driver.CodeOf(err) != CodeDisk || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a full disk is %v", err)
	}
	empties(t, s)
	if _, err := s.Start(t.Context(), user("u"), reg.push(t, "fits:1", fits)); err != nil {
		t.Errorf("then nothing fits: %v", err)
	}
}

// childStep tells a copy of the test's program at which step to stand still, to be killed.
const childStep = "ROOTFS_TEST_STEP"

func TestMain(m *testing.M) {
	if step := os.Getenv(childStep); step != "" {
		s, err := Open(os.Args[1], "")
		if err != nil {
			panic(err)
		}
		s.reached = func(at string) {
			if at == step {
				_, _ = os.Stdout.WriteString("here\n")
				_, _ = io.Copy(io.Discard, os.Stdin)
			}
		}
		_, err = s.Start(context.Background(), user("killed"), os.Args[2])
		panic(err)
	}
	dockertest.Main(m)
}

// A process that is killed while it makes a root leaves nothing that is taken for one.
func TestKilled(t *testing.T) {
	reg := serve(t)
	ref := reg.push(t, "one:1", imageOf(t, v1.Config{}, layerOf(t, regular("a", "a")), layerOf(t, regular("b", "b"))))
	for _, step := range []string{stepFetched, stepLayer, stepSynced} {
		dir := filepath.Join(t.TempDir(), "roots")
		child := exec.Command("/proc/self/exe", dir, ref)
		child.Env = append(os.Environ(), childStep+"="+step)
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		open(t, dir) // what is being made stays
		if names, _ := filepath.Glob(dir + "/new-*"); len(names) == 0 {
			t.Errorf("%s: another process has removed what was being made", step)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		in.Close()
		if names, _ := filepath.Glob(dir + "/sha256-*"); len(names) > 0 {
			t.Errorf("%s: there is %v", step, names)
		}
		s := open(t, dir)
		if names, _ := filepath.Glob(dir + "/new-*"); len(names) > 0 {
			t.Errorf("%s: there is still %v", step, names)
		}
		if root, err := s.Start(t.Context(), user("killed"), ref); err != nil || read(t, root.Tree, "b") != "b" {
			t.Errorf("%s: then the root is %+v, %v", step, root, err)
		}
	}
}

// A start that is cancelled ends, also while another makes the root.
func TestCancelled(t *testing.T) {
	reg := serve(t)
	ref := reg.push(t, "one:1", imageOf(t, v1.Config{}, layerOf(t, regular("a", "a"))))
	s := store(t)
	stands, goes := make(chan bool), make(chan bool)
	s.reached = func(at string) {
		if at == stepFetched {
			stands <- true
			<-goes
		}
	}
	var first error
	var all sync.WaitGroup
	all.Go(func() { _, first = s.Start(context.Background(), user("u1"), ref) })
	<-stands
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.Start(ctx, user("u2"), ref)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled start: %v", err)
	}
	close(goes)
	all.Wait()
	if users, err := s.Users(); first != nil || err != nil || len(users) != 1 {
		t.Errorf("the other: %v, and the users are %v, %v", first, users, err)
	}
}

func TestFill(t *testing.T) {
	c := Config{Command: []string{"/entry", "arg"}, Env: []string{"PATH=/image", "A=1"}, Dir: "/work", User: "app"}
	got := c.Fill(schemas.Spec{})
	if strings.Join(got.Command, " ") != "/entry arg" || got.Dir != "/work" || got.User != "app" || strings.Join(got.Env, " ") != "PATH=/image A=1" {
		t.Errorf("of nothing it makes %+v", got)
	}
	got = c.Fill(schemas.Spec{Command: []string{"sh"}, Dir: "/", User: "0", Env: []string{"A=2", "AB=3"}})
	if strings.Join(got.Command, " ") != "sh" || got.Dir != "/" || got.User != "0" || strings.Join(got.Env, " ") != "PATH=/image A=2 AB=3" {
		t.Errorf("what is given becomes %+v", got)
	}
}

// The host's Docker engine may have the image.
func TestEngine(t *testing.T) {
	img := imageOf(t, v1.Config{}, layerOf(t, regular("which", "the engine's")))
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.47")
		case strings.HasSuffix(r.URL.Path, "/images/get") && r.URL.Query().Get("names") == "which:1":
			if err := tarball.Write(mustTag(t, "which:1"), img, w); err != nil {
				t.Error(err)
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"no such image"}`)
		}
	}))
	t.Setenv("DOCKER_HOST", strings.Replace(engine.URL, "http:", "tcp:", 1))
	s := store(t)
	root, err := s.Start(t.Context(), user("u"), "engine:which:1")
	if err != nil || read(t, root.Tree, "which") != "the engine's" {
		t.Errorf("the root is %+v, %v", root, err)
	}
	if names, _ := filepath.Glob(s.dir + "/new-*"); len(names) > 0 {
		t.Errorf("the engine's archive is still there: %v", names)
	}
	if _, err := s.Start(t.Context(), user("u2"), "engine:other:1"); driver.CodeOf(err) != CodeNotFound {
		t.Errorf("an image that it doesn't have: %v", err)
	}
	given, err := Open(filepath.Join(t.TempDir(), "roots"), os.Getenv("DOCKER_HOST"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	if root, err := given.Start(t.Context(), user("u"), "engine:which:1"); err != nil || read(t, root.Tree, "which") != "the engine's" {
		t.Errorf("of the engine that the host was given the root is %+v, %v", root, err)
	}
	engine.Close()
	if _, err := given.Start(t.Context(), user("u2"), "engine:which:1"); driver.CodeOf(err) != CodeAway {
		t.Errorf("no engine: %v", err)
	}
	none, err := Open(filepath.Join(t.TempDir(), "roots"), "none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Start(t.Context(), user("u"), "engine:which:1"); driver.KindOf(err) != driver.Refused || driver.CodeOf(err) != CodeNotFound {
		t.Errorf("a host that uses no engine: %v", err)
	}
}
