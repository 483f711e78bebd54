package image

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// indexPacks are what the header says of sampleIndex's packs.
func indexPacks() []schemas.ImagePack {
	size := func(n int64) schemas.ImageObject { return schemas.ImageObject{Size: n} }
	return []schemas.ImagePack{
		{Name: strings.Repeat("a", 32), ImageObject: size(spanSize + 500), Pages: 300},
		{Name: strings.Repeat("b", 32), ImageObject: size(1000), Pages: 2},
	}
}

func sampleIndex() *index {
	sum := strings.Repeat("5", 64)
	return &index{
		packs: []indexPack{
			{strings.Repeat("a", 32), [][2]int64{{500_000, 256}, {300_000, 44}}, []string{sum, sum}},
			{strings.Repeat("b", 32), [][2]int64{{500, 2}}, []string{sum}},
		},
		entries: []Entry{
			{Name: "upper", Type: TypeDir, Mode: 0o755, MTime: -1},
			{Name: "upper/f", Type: TypeFile, Mode: 0o4755, UID: 1, GID: 2, MTime: 3, Size: 310*PageSize - 5, Xattrs: map[string][]byte{"user.a": {0, 255}}},
			{Name: "upper/\xff", Type: TypeSymlink, Link: "\xfe<"},
			{Name: "upper/h", Type: TypeHardlink, Link: "upper/f"},
			{Name: "upper/c", Type: TypeChar, Rdev: 5},
			{Name: "upper/e", Type: TypeFile},
		},
		runs: [][]run{nil, {{0, 0, 300}, {-1, 0, 5}, {1, 1, 1}, {0, 296, 4}}, nil, nil, nil, nil},
	}
}

func encodeIndex(t testing.TB, x *index) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := x.encode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestGoldenIndex(t *testing.T) {
	text := encodeIndex(t, sampleIndex())
	golden(t, "testdata/index.golden", text)
	x, err := parseIndex(bytes.NewReader(text), indexPacks())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(x, sampleIndex()) {
		t.Errorf("read back: %+v", x)
	}
}

func TestIndexRefused(t *testing.T) {
	good := string(encodeIndex(t, sampleIndex()))
	for what, c := range map[string][2]string{
		"version":           {`{"index":1`, `{"index":2`},
		"packs":             {`"packs":2`, `"packs":1`},
		"entry too few":     {`"entries":6`, `"entries":7`},
		"entry too many":    {`"entries":6`, `"entries":5`},
		"negative entries":  {`"entries":6`, `"entries":-1`},
		"pack name":         {`"pack":"a`, `"pack":"c`},
		"frame pages":       {`[500000,256]`, `[500000,255]`},
		"frame size":        {`[500000,256]`, `[5000000,256]`},
		"negative frame":    {`[500000,256]`, `[-1,256]`},
		"huge frame":        {`[[500000,256],[300000,44]]`, `[[500000,5000],[300000,-4700]]`},
		"span missing":      {`,"` + strings.Repeat("5", 64) + `"]`, `]`},
		"span no digest":    {strings.Repeat("5", 64), strings.Repeat("G", 64)},
		"run beyond pack":   {`[0,296,4]`, `[0,297,4]`},
		"run of other pack": {`[0,296,4]`, `[2,0,4]`},
		"run before pack":   {`[0,296,4]`, `[0,-4,4]`},
		"run of none":       {`[0,296,4]`, `[0,296,4],[0,0,0]`},
		"zeros at a page":   {`[-1,0,5]`, `[-1,1,5]`},
		"run overflows":     {`[0,296,4]`, `[0,9223372036854775807,4]`},
		"count overflows":   {`[0,296,4]`, `[0,296,9223372036854775807]`},
		"pack -2":           {`[-1,0,5]`, `[-2,0,5]`},
		"pages too few":     {`[0,296,4]`, `[0,296,3]`},
		"size":              {`"size":1269755`, `"size":-1`},
		"name leads out":    {`"name":"upper/e"`, `"name":"upper/../e"`},
		"name absolute":     {`"name":"upper/e"`, `"name":"/e"`},
		"name twice":        {`"name":"upper/e"`, `"name":"upper/f"`},
		"below a link":      {`"name":"upper/e"`, `"name":"upper/h/e"`},
		"hardlink to later": {`"link":"upper/f"`, `"link":"upper/e"`},
		"hardlink to dir":   {`"link":"upper/f"`, `"link":"upper"`},
		"type":              {`"type":"char"`, `"type":"door"`},
		"more at the end":   {"\"type\":\"file\",\"mode\":0,\"uid\":0,\"gid\":0,\"mtime\":0,\"size\":0}\n", "\"type\":\"file\",\"mode\":0,\"uid\":0,\"gid\":0,\"mtime\":0,\"size\":0}\n{}\n"},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		if bad == good {
			t.Errorf("%s: the case changes nothing", what)
			continue
		}
		if _, err := parseIndex(strings.NewReader(bad), indexPacks()); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(encodeIndex(f, sampleIndex()))
	f.Add([]byte(`{"index":1,"packs":2,"entries":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := parseIndex(bytes.NewReader(data), indexPacks())
		if err != nil {
			return
		}
		again, err := parseIndex(bytes.NewReader(encodeIndex(t, x)), indexPacks())
		if err != nil {
			t.Fatalf("what was accepted is refused when written again: %v", err)
		}
		same := slices.EqualFunc(again.runs, x.runs, slices.Equal[[]run]) // no runs are no runs, however they were written
		if len(again.entries) != len(x.entries) || !same {
			t.Fatal("written again it is another index")
		}
		x.live() // reaches for every page that the runs name
	})
}

func FuzzIDs(f *testing.F) {
	f.Add([]byte(`{"ids":1,"pages":1,"key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`+"\n0123456789abcdef"), int64(1))
	f.Fuzz(func(t *testing.T, data []byte, pages int64) {
		_, ids, err := parseIDs(data, pages)
		if err == nil && int64(len(ids)) != pages*16 {
			t.Fatalf("%d bytes for %d ids", len(ids), pages)
		}
	})
}
