package image

import (
	"bytes"
	"crypto/rand"
	"os/exec"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// entropyCases are pages of every kind, in all neighbourhoods.
func entropyCases() map[string][]byte {
	noisy := make([]byte, 3*PageSize)
	rand.Read(noisy)
	two := bytes.Repeat([]byte{1, 2}, PageSize)
	return map[string][]byte{
		"one byte":    bytes.Repeat([]byte{0xff}, PageSize),
		"two bytes":   two,
		"long":        bytes.Repeat([]byte{7}, 2*maxBlock+PageSize),
		"noise":       noisy,
		"mix":         memory(1 << 20),
		"mix, short":  memory(5 * PageSize),
		"edges":       append(append(bytes.Clone(noisy), two...), noisy...),
		"whole frame": memory(maxFrame * PageSize),
	}
}

func TestEntropyFrames(t *testing.T) {
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var c entropyCoder // used again, as a writer does
	for name, raw := range entropyCases() {
		coded := c.encode(raw, nil)
		got, err := z.DecodeAll(coded, nil)
		if err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: %d bytes came back as %d: %v", name, len(raw), len(got), err)
		}
		if most := len(raw) + len(raw)/PageSize*3 + 16; len(coded) > most {
			t.Errorf("%s: %d bytes became %d", name, len(raw), len(coded))
		}
	}
}

// The frames must be readable without this package and its libraries.
func TestEntropyFramesByHand(t *testing.T) {
	var c entropyCoder
	var all, coded []byte
	for _, raw := range entropyCases() {
		all, coded = append(all, raw...), c.encode(raw, coded)
	}
	cmd := exec.Command("zstd", "-dc")
	cmd.Stdin = bytes.NewReader(coded)
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("zstd -d: %v (install zstd)", err)
	}
	if !bytes.Equal(got, all) {
		t.Errorf("%d bytes came back as %d others", len(all), len(got))
	}
}

func FuzzEntropy(f *testing.F) {
	f.Add([]byte("some text"), uint8(1))
	f.Add(bytes.Repeat([]byte{0, 1, 2}, 5000), uint8(2))
	z, err := zstd.NewReader(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, repeat uint8) {
		raw := bytes.Repeat(data, int(repeat)%8)
		raw = append(raw, make([]byte, PageSize-len(raw)%PageSize)...)
		if len(raw) > maxFrame*PageSize {
			return
		}
		var c entropyCoder
		got, err := z.DecodeAll(c.encode(raw, nil), nil)
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%d bytes came back as %d: %v", len(raw), len(got), err)
		}
	})
}

// BenchmarkEntropy compares the two ways of compressing on one core.
func BenchmarkEntropy(b *testing.B) {
	data := memory(64 << 20)
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		b.Fatal(err)
	}
	var c entropyCoder
	for name, encode := range map[string]func(raw, out []byte) []byte{"repeats": z.EncodeAll, "entropy": c.encode} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			var out []byte
			total := 0
			for b.Loop() {
				total = 0
				for at := 0; at < len(data); at += 1 << 20 {
					out = encode(data[at:at+1<<20], out[:0])
					total += len(out)
				}
			}
			b.ReportMetric(float64(len(data))/float64(total), "ratio")
		})
	}
}
