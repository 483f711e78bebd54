package rootfs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// capNetRaw is cap_net_raw+ep, as the kernel has it.
const capNetRaw = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// What the layers have is in the tree as they have it, and what they hide isn't.
func TestUnpack(t *testing.T) {
	lower := layerOf(t,
		directory("./"), directory("bin/"), regular("bin/busybox", "box").with(func(h *tar.Header) { h.Mode = 0o4755 }),
		link(tar.TypeLink, "bin/sh", "bin/busybox"), link(tar.TypeSymlink, "lib", "usr/lib"), directory("usr/lib"),
		regular("usr/bin/ping", "ping").with(func(h *tar.Header) {
			h.Mode = 0o755
			h.PAXRecords = map[string]string{paxAttribute + "security.capability": capNetRaw, paxAttribute + "trusted.overlay.opaque": "y"}
		}),
		regular("gone", "x"), directory("swept/"), regular("swept/old", "x"), directory("swept/deep"), regular("swept/deep/old", "x"),
		directory("kind"), regular("kind/file", "x"), regular("owned", "x").with(func(h *tar.Header) { h.Uid, h.Gid = 1000, 1001 }),
		link(tar.TypeSymlink, "outside", "/etc/../../../etc/passwd"), link(tar.TypeSymlink, "var", "/real"), directory("real"),
		file{tar.Header{Typeflag: tar.TypeChar, Name: "null", Mode: 0o666, Devmajor: 1, Devminor: 3, ModTime: made}, ""},
		file{tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o600, ModTime: made}, ""},
		directory("dated"), regular("dated/in", "x"),
	)
	upper := layerOf(t,
		regular(".wh.gone", ""), regular("swept/new", "new"), regular("swept/deep/new", "new"), regular("swept/.wh..wh..opq", ""),
		regular("kind", "a file now"), regular("lib/libc", "libc"), regular("var/log", "log"), regular(".wh..wh.plnk", ""),
		regular("both", "new"), regular(".wh.both", ""),
	)
	reg, s := serve(t), store(t)
	root, err := s.Start(t.Context(), user("u"), reg.push(t, "x:1", imageOf(t, v1.Config{}, lower, upper)))
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, "find", root.Tree, "-mindepth", "1", "-printf", "%P %y %m %U:%G %s %l\n")
	got = strings.Join(strings.Fields(strings.ReplaceAll(got, "\n", " ;")), " ")
	for _, want := range []string{
		"bin/busybox f 4755 0:0 3", "usr/lib/libc f 644 0:0 4", "lib l 777 0:0 7 usr/lib", "usr/bin/ping f 755 0:0 4", "real/log f 644 0:0 3",
		"kind f 644 0:0 10", "owned f 644 1000:1001 1", "outside l 777 0:0 24 /etc/../../../etc/passwd", "null c 666 0:0", "fifo p 600 0:0", "swept/new f", "swept/deep/new f", "both f",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in %s", want, got)
		}
	}
	for _, unwanted := range []string{"gone", "/old", ".wh.", "kind/file"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("there is %q in %s", unwanted, got)
		}
	}
	var one, two, dir unix.Stat_t
	for name, st := range map[string]*unix.Stat_t{"bin/busybox": &one, "bin/sh": &two, "dated": &dir} {
		if err := unix.Lstat(filepath.Join(root.Tree, name), st); err != nil {
			t.Fatal(err)
		}
	}
	if one.Ino != two.Ino || one.Mtim.Sec != made.Unix() || dir.Mtim.Sec != made.Unix() {
		t.Errorf("the hard link is %d and %d, the times %d and %d", one.Ino, two.Ino, one.Mtim.Sec, dir.Mtim.Sec)
	}
	value := make([]byte, 100)
	if n, err := unix.Lgetxattr(filepath.Join(root.Tree, "usr/bin/ping"), "security.capability", value); err != nil || string(value[:n]) != capNetRaw {
		t.Errorf("the capability is %q, %v", value[:max(n, 0)], err)
	}
	if _, err := unix.Lgetxattr(filepath.Join(root.Tree, "usr/bin/ping"), "trusted.overlay.opaque", value); err != unix.ENODATA {
		t.Errorf("an attribute of overlays was set: %v", err)
	}
}

// No archive reaches out of the tree, and no symbolic link of one leads there.
func TestHostile(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	if err := os.MkdirAll(filepath.Join(outside, "kept"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 40)
	for what, c := range map[string]struct {
		files   []file
		refused bool
	}{
		"dots":                    {[]file{regular(up+outside+"/x", "x")}, false},
		"absolute":                {[]file{regular(outside+"/x", "x")}, false},
		"link and below":          {[]file{directory(outside), link(tar.TypeSymlink, "a", outside), regular("a/x", "x")}, false},
		"relative link and below": {[]file{link(tar.TypeSymlink, "a", up+outside), regular("a/x", "x")}, true},
		"link to nothing":         {[]file{link(tar.TypeSymlink, "a", outside), directory("a/x")}, true},
		"over a link":             {[]file{link(tar.TypeSymlink, "a", outside+"/secret"), regular("a", "x")}, false},
		"directory over a link":   {[]file{link(tar.TypeSymlink, "a", outside), directory("a").with(func(h *tar.Header) { h.Mode = 0o777 })}, false},
		"hard link out":           {[]file{link(tar.TypeLink, "a", up+outside+"/secret"), regular("a", "x")}, true},
		"hard link by a link":     {[]file{link(tar.TypeSymlink, "l", outside), link(tar.TypeLink, "a", "l/secret")}, true},
		"hard link to a link":     {[]file{link(tar.TypeSymlink, "l", outside+"/secret"), link(tar.TypeLink, "a", "l"), regular("a", "x")}, false},
		"hard link to the root":   {[]file{link(tar.TypeLink, "a", ".")}, true},
		"hide by a link":          {[]file{link(tar.TypeSymlink, "l", outside), regular("l/.wh.secret", "")}, true},
		"hide what is above":      {[]file{regular("a/.wh...", "")}, true},
		"hide the directory":      {[]file{regular("a/.wh..", "")}, true},
		"hide nothing":            {[]file{regular("a/.wh.", "")}, true},
		"empty by a link":         {[]file{link(tar.TypeSymlink, "l", outside), regular("l/.wh..wh..opq", "")}, true},
		"the root as a link":      {[]file{link(tar.TypeSymlink, "./", outside)}, true},
		"magic link":              {[]file{link(tar.TypeSymlink, "l", "/proc/self/root"+outside), regular("l/x", "x")}, true},
		"a file as a directory":   {[]file{regular("a", "x"), regular("a/b", "x")}, true},
		"a link to itself":        {[]file{link(tar.TypeSymlink, "l", "l"), regular("l/x", "x")}, true},
		"hard link to itself":     {[]file{link(tar.TypeLink, "a", "a")}, true},
		"a very long name":        {[]file{regular(strings.Repeat("a/", 4000)+"x", "x")}, true},
		"a name that is too long": {[]file{regular(strings.Repeat("a", 300), "x")}, true},
		"a kind that is unknown":  {[]file{link('Z', "a", "")}, true},
		"attributes of overlays": {[]file{regular("a", "x").with(func(h *tar.Header) {
			h.PAXRecords = map[string]string{paxAttribute + "trusted.overlay.redirect": outside}
		})}, false},
		"a device in place of this": {[]file{link(tar.TypeSymlink, "a", outside+"/secret"), {tar.Header{Typeflag: tar.TypeBlock, Name: "a", Mode: 0o666, Devmajor: 8}, ""}}, false},
	} {
		t.Run(what, func(t *testing.T) {
			reg := serve(t)
			s := open(t, filepath.Join(top, "roots-"+strings.ReplaceAll(what, " ", "-")))
			_, err := s.Start(t.Context(), user("u"), reg.push(t, "x:1", imageOf(t, v1.Config{}, layerOf(t, c.files...))))
			if (err != nil) != c.refused || c.refused && driver.CodeOf(err) != CodeDamaged {
				t.Errorf("got %v with code %q, want refused: %v", err, driver.CodeOf(err), c.refused)
			}
			if c.refused {
				empties(t, s)
			}
			got := strings.Fields(run(t, "find", outside, "-printf", "/%P:%m:%n:%u\n"))
			slices.Sort(got)
			if want := "/:755:3:root /kept:755:2:root /secret:600:1:root"; strings.Join(got, " ") != want || read(t, outside, "secret") != "secret" {
				t.Errorf("outside there is %v, want %s", got, want)
			}
		})
	}
}

// What isn't what its digests say is refused, and leaves nothing.
func TestDamaged(t *testing.T) {
	good, other := layerOf(t, regular("a", "good")), layerOf(t, regular("a", "evil"))
	img := imageOf(t, v1.Config{}, good)
	for what, c := range map[string]struct {
		blob func(v1.Hash, string) string // changes a blob
		says string
	}{
		"manifest": {func(_ v1.Hash, s string) string { return strings.Replace(s, "sha256", "sha257", 1) }, "something else"},
		"all":      {func(v1.Hash, string) string { return "" }, "something else"},
		"config":   {func(_ v1.Hash, s string) string { return strings.Replace(s, `"architecture"`, `"brchitecture"`, 1) }, "something else"},
		"layer":    {func(h v1.Hash, s string) string { return cut(h, s, good, s[:len(s)-1]) }, "something else"},
		"longer":   {func(h v1.Hash, s string) string { return cut(h, s, good, s+"x") }, ""},
		"another":  {func(h v1.Hash, s string) string { return cut(h, s, good, compressed(other)) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			s := store(t)
			reg := serve(t)
			root, err := s.Start(t.Context(), user("u"), reg.push(t, "x:1", img))
			if err != nil {
				t.Fatal(err)
			}
			kept := keep(t, root)
			for digest, name := range kept.files {
				if err := os.WriteFile(name, []byte(c.blob(digest, read(t, name))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			there := store(t)
			_, err = there.Restore(t.Context(), withPin(user("u"), root.Pin), kept)
			if code := driver.CodeOf(err); code != CodeDamaged && code != CodeTooLarge || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
			empties(t, there)
		})
	}
}

func compressed(l v1.Layer) string {
	r, err := l.Compressed()
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		panic(err)
	}
	return b.String()
}

func cut(h v1.Hash, s string, l v1.Layer, changed string) string {
	if d, err := l.Digest(); err == nil && d == h {
		return changed
	}
	return s
}

// fixed are blobs by their digests.
type fixed map[v1.Hash][]byte

// by makes an image of layers as they are, with the digests of contents that it is told.
func by(t *testing.T, contents []v1.Hash, layers ...[]byte) (fixed, Pin) {
	t.Helper()
	all := fixed{}
	put := func(b []byte) v1.Hash {
		h, _, err := v1.SHA256(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		all[h] = b
		return h
	}
	var ids, descriptors []string
	for i, l := range layers {
		descriptors = append(descriptors, fmt.Sprintf(`{"mediaType":"%s","size":%d,"digest":"%s"}`, types.OCILayer, len(l), put(l)))
		ids = append(ids, `"`+contents[i].String()+`"`)
	}
	config := []byte(fmt.Sprintf(`{"rootfs":{"type":"layers","diff_ids":[%s]}}`, strings.Join(ids, ",")))
	manifest := []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%s","config":{"size":%d,"digest":"%s"},"layers":[%s]}`,
		types.OCIManifestSchema1, len(config), put(config), strings.Join(descriptors, ",")))
	return all, Pin{"x", put(manifest).String()}
}

func (f fixed) Open(digest v1.Hash) (io.ReadCloser, error) {
	b, ok := f[digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func sum(t *testing.T, b []byte) v1.Hash {
	t.Helper()
	h, _, err := v1.SHA256(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A layer may be compressed in each way that images know, and must be what the config says.
func TestLayers(t *testing.T) {
	plain := archive(t, regular("a", "here"))
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger := sum(t, []byte("something else"))
	for what, c := range map[string]struct {
		layer []byte
		id    v1.Hash
		code  string
	}{
		"plain":                {plain, sum(t, plain), ""},
		"gzip":                 {zipped(t, plain), sum(t, plain), ""},
		"zstd":                 {z.EncodeAll(plain, nil), sum(t, plain), ""},
		"another content":      {zipped(t, plain), stranger, CodeDamaged},
		"another kind of sum":  {zipped(t, plain), v1.Hash{Algorithm: "sha512", Hex: strings.Repeat("0", 128)}, CodeDamaged},
		"no archive":           {[]byte(strings.Repeat("no archive", 100)), sum(t, []byte(strings.Repeat("no archive", 100))), CodeDamaged},
		"an end in the middle": {zipped(t, plain)[:60], sum(t, plain), CodeDamaged},
		"nothing":              {[]byte{}, sum(t, nil), ""},
	} {
		t.Run(what, func(t *testing.T) {
			blobs, pin := by(t, []v1.Hash{c.id}, c.layer)
			s := store(t)
			_, err := s.Restore(t.Context(), withPin(user("u"), pin), blobs)
			if driver.CodeOf(err) != c.code || (err == nil) != (c.code == "") {
				t.Errorf("got %v with code %q, want %q", err, driver.CodeOf(err), c.code)
			}
			if err != nil {
				empties(t, s)
			}
		})
	}
}

// An archive that would never end, or hardly, ends at a bound.
func TestBounds(t *testing.T) {
	endless := append(archive(t, regular("a", "here")), make([]byte, 4<<20)...)
	var crowd []file
	for i := range 200 {
		crowd = append(crowd, regular(fmt.Sprint("f", i), ""))
	}
	bomb := archive(t, regular("a", strings.Repeat("0", 4<<20)))
	// The header says a terabyte, which isn't there.
	sparse := archive(t, file{tar.Header{Typeflag: tar.TypeDir, Name: "d", ModTime: made}, ""})
	var h bytes.Buffer
	if err := tar.NewWriter(&h).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: 1 << 40, ModTime: made}); err != nil {
		t.Fatal(err)
	}
	for what, layers := range map[string][][]byte{
		"zeros after the end": {endless}, "files": {archive(t, crowd...)}, "content": {bomb}, "a size": {append(h.Bytes(), sparse...)},
		"layers": slices.Repeat([][]byte{archive(t, regular("a", "a"))}, 9),
	} {
		t.Run(what, func(t *testing.T) {
			var ids []v1.Hash
			for i, l := range layers {
				ids = append(ids, sum(t, l))
				layers[i] = zipped(t, l)
			}
			blobs, pin := by(t, ids, layers...)
			s := store(t)
			s.limits = limits{manifest: 1 << 20, config: 1 << 20, layers: 8, bytes: 2 << 20, entries: 100}
			_, err := s.Restore(t.Context(), withPin(user("u"), pin), blobs)
			if driver.CodeOf(err) != CodeTooLarge {
				t.Errorf("got %v with code %q", err, driver.CodeOf(err))
			}
			empties(t, s)
		})
	}
}
