package index

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// outputs are what terminals show of different kinds, so much of each.
func outputs(random *rand.Rand, size int) map[string]string {
	syllables := strings.Fields("ka lo mi ter san der pre con ing tion al er ex pro ver sub ta ble re com")
	vocabulary := make([]string, 5000)
	for i := range vocabulary {
		for range 1 + random.IntN(4) {
			vocabulary[i] += syllables[random.IntN(len(syllables))]
		}
	}
	zipf := rand.NewZipf(random, 1.1, 4, uint64(len(vocabulary)-1))
	word := func() string { return vocabulary[zipf.Uint64()] }
	blob := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(random.IntN(26))
		}
		return string(b)
	}
	lines := 0
	kinds := map[string]func() string{
		"log": func() string {
			return fmt.Sprintf("2026-05-%02dT%02d:%02d:%02d.%06dZ INFO %s: request %d of %s took %dms status=%d", 1+random.IntN(28), random.IntN(24), random.IntN(60), random.IntN(60), random.IntN(1e6), word(), lines, word(), random.IntN(5000), 200+random.IntN(4)*100)
		},
		"build": func() string {
			return fmt.Sprintf("\x1b[1m\x1b[32m[%3d%%]\x1b[0m Building CXX object src/%s/CMakeFiles/%s.dir/%s_%s.cpp.o", lines%100, word(), word(), word(), word())
		},
		"prose": func() string {
			var b strings.Builder
			for range 12 {
				b.WriteString(word() + " ")
			}
			return b.String()
		},
		"numbers": func() string { return fmt.Sprint(lines) },
		"digests": func() string { return hex.EncodeToString(blob(32)) + "  " + word() + "/" + word() },
		"base64":  func() string { return base64.StdEncoding.EncodeToString(blob(57)) },
		"hexdump": func() string { return fmt.Sprintf("%08x  % x", lines*16, blob(16)) },
		"random":  func() string { return letters(7) + " " + letters(8) + " " + letters(6) },
		"binary":  func() string { return string(blob(80)) },
		"same":    func() string { return "y" },
	}
	out := map[string]string{}
	for name, line := range kinds {
		var b strings.Builder
		for lines = 0; b.Len() < size; lines++ {
			b.WriteString(line() + "\r\n")
		}
		out[name] = b.String()
	}
	return out
}

// An index takes at most 15 % of the output, of any kind.
func TestSize(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pack, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{128 << 10}
	if os.Getenv("DIAPAUSE_LONG") != "" {
		sizes = append(sizes, 1100<<10, 2<<20)
	}
	for _, size := range sizes {
		var raw, stored int
		for name, output := range outputs(random, size) {
			p := newTape(t)
			for part := range chunks(output, 100_000) {
				p.segment(part)
			}
			x := newIndex(t)
			p.feed(x, 0)
			_, data := again(t, x)
			sealed := len(pack.EncodeAll(data, nil))
			t.Logf("%-8s %8d bytes: %5.1f %% in memory, %5.1f %% stored", name, len(output), 100*float64(len(data))/float64(len(output)), 100*float64(sealed)/float64(len(output)))
			if sealed*100 > len(output)*15 {
				t.Errorf("the index of %s takes %d bytes of %d", name, sealed, len(output))
			}
			raw, stored = raw+len(output), stored+sealed
		}
		t.Logf("all      %8d bytes: %5.1f %% stored", raw, 100*float64(stored)/float64(raw))
	}
}

func chunks(text string, n int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			part := text[:min(n, len(text))]
			text = text[len(part):]
			if !yield(part) {
				return
			}
		}
	}
}

// Few blocks are named that don't have what is looked for, also where words are indexed by their hashes.
func TestPrecision(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	long := os.Getenv("DIAPAUSE_LONG") != ""
	for name, output := range outputs(random, 2<<20) {
		if !long && name != "log" && name != "random" {
			continue
		}
		if name == "same" || name == "base64" || name == "hexdump" || name == "binary" {
			continue
		}
		p := newTape(t)
		at := len(output) / 2
		at += bytes.IndexByte([]byte(output[at:]), '\n') + 1
		p.segment(output[:at], "a needle12345 and the zebrafish\r\n", output[at:])
		x := newIndex(t)
		p.feed(x, 0)
		x, _ = again(t, x)
		for _, word := range []string{"needle12345", "zebrafish"} {
			lines, blocks := p.find(x, word)
			most := len(x.blocks) / 5
			if name == "random" || name == "numbers" { // nothing but strange words
				most = len(x.blocks) / 2
			}
			if len(lines) != 1 || blocks > most {
				t.Errorf("%s in %s is in %d lines; %d of %d blocks are named", word, name, len(lines), blocks, len(x.blocks))
			}
		}
	}
}
