package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/workers/driver"
)

// The layers of an archive that aren't compressed are kept as they are, and verified.
func TestPlainArchive(t *testing.T) {
	dir := t.TempDir()
	layers := [][]byte{archive(t, regular("a", "a")), archive(t, regular("b", "b"))}
	save := func(name string, layers ...[]byte) string {
		config := `{"rootfs":{"type":"layers","diff_ids":["` + sum(t, archive(t, regular("a", "a"))).String() + `","` + sum(t, archive(t, regular("b", "b"))).String() + `"]}}`
		files := []file{regular("manifest.json", `[{"Config":"c.json","Layers":["0/layer.tar","1/layer.tar"]}]`), regular("c.json", config)}
		for i, l := range layers {
			files = append(files, regular(fmt.Sprintf("%d/layer.tar", i), string(l)))
		}
		if err := os.WriteFile(filepath.Join(dir, name), archive(t, files...), 0o600); err != nil {
			t.Fatal(err)
		}
		return "tar:" + filepath.Join(dir, name)
	}
	s := store(t)
	root, err := s.Start(t.Context(), user("u"), save("good", layers...))
	if err != nil || read(t, root.Tree, "a")+read(t, root.Tree, "b") != "ab" {
		t.Fatalf("the root is %+v, %v", root, err)
	}
	if got := read(t, root.dir, blobsDir, sum(t, layers[0]).Hex); got != string(layers[0]) {
		t.Errorf("the layer of %d bytes is kept as %d others", len(layers[0]), len(got))
	}
	for what, ref := range map[string]string{
		"another layer": save("other", layers[0], archive(t, regular("b", "x"))), "one layer missing": save("missing", layers[0]),
	} {
		s := store(t)
		if _, err := s.Start(t.Context(), user("u"), ref); driver.CodeOf(err) != CodeDamaged {
			t.Errorf("%s: %v with code %q", what, err, driver.CodeOf(err))
		}
		empties(t, s)
	}
	if mixed, err := s.Start(t.Context(), user("m"), save("mixed", zipped(t, layers[0]), zipped(t, layers[1]))); err != nil || read(t, mixed.Tree, "b") != "b" {
		t.Errorf("with compressed layers the root is %+v, %v", mixed, err)
	}
}
