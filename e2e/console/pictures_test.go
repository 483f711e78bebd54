package console

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "take the pictures of the console again")

const (
	pictures = served + "/pictures"
	// mostPictures is what all of them may take, in bytes.
	mostPictures = 300 << 10
)

// TestPictures looks at the pictures that documents show: each is there, small, and shown. With -update it takes them.
func TestPictures(t *testing.T) {
	if *update {
		takePictures(t)
	}
	files, err := filepath.Glob(pictures + "/*.png")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no pictures: %v", err)
	}
	top, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile("../../services/gateway/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(top), "services/gateway/console/pictures/"); n != 1 {
		t.Errorf("README.md shows the console %d times", n)
	}
	var shown []string
	for _, m := range regexp.MustCompile(`!\[[^\]]+\]\([a-z/]*pictures/([a-z]+\.png)\)`).FindAllStringSubmatch(string(top)+string(about), -1) {
		shown = append(shown, m[1])
	}
	size := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.DecodeConfig(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if size += len(data); !slices.Contains(shown, filepath.Base(file)) {
			t.Errorf("no document shows %s", file)
		}
	}
	for _, name := range shown {
		if !slices.Contains(files, filepath.Join(pictures, name)) {
			t.Errorf("there is no picture %s: `make screenshots` takes them", name)
		}
	}
	if size > mostPictures {
		t.Errorf("the pictures take %d bytes, of %d", size, mostPictures)
	}
}

func takePictures(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	fresh(t).run(t, "pictures.mjs", dir)
	files, err := filepath.Glob(dir + "/*.png")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(pictures, filepath.Base(file)), small(t, in), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// small is a picture in the 256 colours that most of it has.
func small(t *testing.T, data []byte) []byte {
	t.Helper()
	in, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.NRGBA]int{}
	for y := in.Bounds().Min.Y; y < in.Bounds().Max.Y; y++ {
		for x := in.Bounds().Min.X; x < in.Bounds().Max.X; x++ {
			count[color.NRGBAModel.Convert(in.At(x, y)).(color.NRGBA)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.NRGBA) int { return count[b] - count[a] })
	var palette color.Palette
	for _, c := range all[:min(256, len(all))] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(in.Bounds(), palette)
	draw.Draw(out, out.Bounds(), in, in.Bounds().Min, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
