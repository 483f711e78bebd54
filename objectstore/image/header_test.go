package image

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenKey signs the golden files. It is no secret.
func goldenKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte("diapause golden file signing key"))
}

func goldenTrusted(string, string) []ed25519.PublicKey {
	return []ed25519.PublicKey{goldenKey().Public().(ed25519.PublicKey)}
}

// goldenHeader has a value in every field.
func goldenHeader() schemas.ImageHeader {
	recipient := "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	object := func(c string) schemas.ImageObject {
		return schemas.ImageObject{Size: 1234, SHA256: strings.Repeat(c, 64)}
	}
	return schemas.ImageHeader{
		Version: 1, Tenant: "acme", Session: "web-42", UID: "u1", Lineage: "lin1", Epoch: 12, Seq: 3,
		Parent: &Head{Name: "acme/lin1/snaps/11-1", Digest: strings.Repeat("d", 64)},
		Signer: "host-a", Op: "op-9", Trigger: "idle", RunID: "run 7", Description: "äöü <&> \"q\"\n",
		Time: time.Date(2026, 5, 4, 3, 2, 1, 987654321, time.UTC),
		Fingerprint: schemas.Fingerprint{Arch: "amd64", Kernel: "6.1", Driver: "criu", Engine: "criu 4.2.1",
			CPU: []string{"avx", "avx2"}, Base: "host"},
		KID: kidOf(recipient), Recipient: recipient, Index: object("1"),
		Packs: []schemas.ImagePack{
			{Name: strings.Repeat("a", 32), KID: kidOf(recipient), ImageObject: object("2"), Pages: 77, IDs: object("3")},
			{Name: strings.Repeat("b", 32), KID: strings.Repeat("c", 16), ImageObject: object("4"), Pages: 1, IDs: object("5")},
		},
		Entries: 5, LogicalBytes: 1 << 40, NewBytes: 4096, StoredBytes: 999,
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s\nwant\n%s", path, got, want)
	}
}

// The bytes of a header are the format: what was stored must always verify.
func TestGoldenHeader(t *testing.T) {
	clear, digest, err := signHeader(goldenHeader(), goldenKey())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/header.golden", clear)
	golden(t, "testdata/header.digest", []byte(digest+"\n"))

	stored, err := os.ReadFile("testdata/header.golden")
	if err != nil {
		t.Fatal(err)
	}
	s, err := splitHeader(append(stored, "index follows\n"...))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.parse(); err != nil {
		t.Fatal(err)
	}
	if err := s.verify(goldenTrusted); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(s.header, goldenHeader()) || s.size != int64(len(clear)) || s.digest() != digest {
		t.Errorf("read back: %+v", s)
	}
}

func TestHeaderRefused(t *testing.T) {
	for what, spoil := range map[string]func(h *schemas.ImageHeader){
		"version":     func(h *schemas.ImageHeader) { h.Version = 2 },
		"tenant":      func(h *schemas.ImageHeader) { h.Tenant = ".." },
		"lineage":     func(h *schemas.ImageHeader) { h.Lineage = "a/b" },
		"session":     func(h *schemas.ImageHeader) { h.Session = "" },
		"uid":         func(h *schemas.ImageHeader) { h.UID = "a b" },
		"signer":      func(h *schemas.ImageHeader) { h.Signer = "" },
		"kid":         func(h *schemas.ImageHeader) { h.KID = strings.Repeat("0", 16) },
		"recipient":   func(h *schemas.ImageHeader) { h.Recipient += "x" },
		"index size":  func(h *schemas.ImageHeader) { h.Index.Size = -1 },
		"index sum":   func(h *schemas.ImageHeader) { h.Index.SHA256 = strings.Repeat("A", 64) },
		"pack name":   func(h *schemas.ImageHeader) { h.Packs[0].Name = "../../other/lin/packs/x" },
		"pack twice":  func(h *schemas.ImageHeader) { h.Packs[1].Name = h.Packs[0].Name },
		"pack kid":    func(h *schemas.ImageHeader) { h.Packs[0].KID = "../x" },
		"pack size":   func(h *schemas.ImageHeader) { h.Packs[0].Size = 1 << 50 },
		"pack sum":    func(h *schemas.ImageHeader) { h.Packs[0].SHA256 = "" },
		"pack spans":  func(h *schemas.ImageHeader) { h.Packs[0].SHA256, h.Packs[0].Spans = "", "zz" },
		"pack pages":  func(h *schemas.ImageHeader) { h.Packs[0].Pages = 0 },
		"ids":         func(h *schemas.ImageHeader) { h.Packs[0].IDs.Size = 0 },
		"description": func(h *schemas.ImageHeader) { h.Description = strings.Repeat("x", maxHeader) },
	} {
		h := goldenHeader()
		spoil(&h)
		if _, _, err := signHeader(h, goldenKey()); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func FuzzHeader(f *testing.F) {
	clear, _, err := signHeader(goldenHeader(), goldenKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(clear)
	f.Add(append(clear, clear...))
	f.Add(clear[:len(clear)/2])
	f.Add([]byte(magic + "{}\n\n"))
	f.Add([]byte(magic + `{"version":1,"packs":[{}]}` + "\nAAAA\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := splitHeader(data)
		if err != nil {
			return
		}
		if s.size > int64(len(data)) || !bytes.HasPrefix(data, s.signed) {
			t.Fatalf("a header of %d bytes in %d", s.size, len(data))
		}
		if s.parse() != nil {
			return
		}
		known := bytes.HasPrefix(data, clear)
		if s.verify(goldenTrusted) == nil && !known {
			t.Fatal("a signature that was never made is accepted")
		}
		// What is accepted can be written, and read again as the same.
		again, _, err := signHeader(s.header, goldenKey())
		if err != nil {
			t.Fatal(err)
		}
		s2, err := splitHeader(again)
		if err != nil {
			t.Fatal(err)
		}
		if err := s2.parse(); err != nil || s2.verify(goldenTrusted) != nil {
			t.Fatalf("written again: %v", err)
		}
	})
}
