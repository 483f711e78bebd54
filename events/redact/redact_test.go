package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Made up, of the form that each has: no scanner of this tree is to take them for one.
var (
	letters  = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	pem      = "MIIEpAIBAAKCAQEA\nq8Zz+/Ab=\n"
	someJWT  = "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0.abc_DEF-123"
	positive = []struct{ before, secret, after string }{
		{"", "AKIA" + "QWERTYUIOPASDFGH", ""},
		{"key: ", "AKIA" + "QWERTYUIOPASDFGH", " is it"},
		{"", "gh" + "p_" + letters[:36], "\n"},
		{"x ", "github_" + "pat_" + strings.Repeat("a1", 41), ""},
		{"", "glp" + "at-" + letters[:20], ""},
		{"", "xox" + "b-123456789012-123456789012-" + letters[:24], ""},
		{"https://hooks.slack.com/services/", "T00000000/B00000000/" + letters[:24], ""},
		{"", "npm" + "_" + letters[:36], ""},
		{"", "sk" + "_live_" + letters[:24], ""},
		{"", "sk-" + "ant-api03-" + letters[:40], ""},
		{"", "AIz" + "a" + letters[:35], ""},
		{"", "hf" + "_" + strings.Repeat("aB", 17), ""},
		{"token is ", someJWT, " and"},
		{"Authorization: Bearer ", "abcdef0123456789xyz", ""},
		{"curl -H 'X-Api-Key: ", "abcdef0123456789", "' https://x"},
		{"git clone https://me:", "hunter2hunter2", "@example.com/x.git"},
		{"postgres://user:", "p%40ss", "@db:5432/x"},
		{"curl -u me:", "hunter2hunter2", " https://x"},
		{"export DB_PASSWORD=", "correct-horse", "\n"},
		{"MYSQL_PWD is not one, password=", "hunter2", "; more"},
		{"api_key = \"", "abc def", "\""},
		{"mysql --password ", "hunter2", " db"},
		{"\"client_secret\": \"", "abc-def-123", "\","},
		{"Password for bob: ", "hunter2", ""},
		{"Enter passphrase: ", "two words", ""},
		{"-----BEGIN RSA PRIVATE KEY-----", "\n" + pem, "-----END RSA PRIVATE KEY-----"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----", "\n" + pem, ""},
		{"", "AGE-SECRET-KEY-" + "1" + strings.Repeat("QPZRY9X8", 8)[:58], ""},
	}
)

func TestSecretsAreFound(t *testing.T) {
	for _, p := range positive {
		text := p.before + p.secret + p.after
		if got, want := Text(text), p.before+Marker+p.after; got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// In a long line all secrets are found, wherever they are in it.
func TestSecretsInALongLine(t *testing.T) {
	for n := aroundAfter - 60; n < aroundAfter+60; n++ {
		text := "password=hunter2 " + strings.Repeat("x", n) + " token=correct-horse " + strings.Repeat("y", 2*aroundAfter)
		if got := Text(text); strings.Contains(got, "horse") || strings.Contains(got, "hunter2") || len(got) != len(text)+2*len(Marker)-len("hunter2correct-horse") {
			t.Fatalf("with %d between it is %q", n, got)
		}
	}
}

func TestNoSecrets(t *testing.T) {
	for _, text := range []string{
		"", "hello", "password", "Password:", "Password: ", "[sudo] password for bob:", "enter the password", "the token is gone", "AKIA", "AKIAshort", "my-AKIAQWERTYUIOP",
		"https://example.com:8080/a@b", "https://me@example.com", "git@github.com:owner/name.git", "ghp_short", "commit 0123456789abcdef0123456789abcdef01234567", "eyJhbGciOiJIUzI1NiJ9",
		"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nMIIE\n", "sha256:0123456789abcdef", "PASSWORD=$PASSWORD", "token=${TOKEN}", "password=", "password: null",
		"api_key=<your key>", "token = os.environ[\"X\"]", "passed=true", "tokenize(text)", "secret=None", "keyboard=us", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA host", "PASS: TestPassword", "mkdir --parents secrets",
		"--token-file /run/token", "password=/run/secrets/password", "ok  \tgithub.com/x/secrets\t0.1s", "spin: 12", "pinned: yes",
	} {
		if got := Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// find gives what a Finder finds, of bytes in pieces.
func find(match Matcher, pieces ...string) (found []Range, matches int) {
	starts := map[int64]bool{}
	f := NewFinder(match, func(r Range, begins bool) {
		found = append(found, r)
		if begins {
			starts[r.From] = true
		}
	})
	for _, p := range pieces {
		f.Write([]byte(p))
	}
	f.End()
	return Merge(found), len(starts)
}

// masked gives the text with what is found taken out, however it is cut.
func masked(t *testing.T, match Matcher, text string) string {
	t.Helper()
	found, _ := find(match, text)
	b := []byte(text)
	Mask(b, 0, found)
	for cut := range text {
		if again, _ := find(match, text[:cut], text[cut:]); !slices.Equal(again, found) {
			t.Errorf("%q, cut at %d: %v, want %v", text, cut, again, found)
		}
	}
	return string(b)
}

func literal(text string) Matcher { return Matching(regexp.MustCompile(regexp.QuoteMeta(text))) }

// The text is found that a terminal shows, and what isn't text stays.
func TestTerminal(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a hunter2 b", "a ******* b"},
		{"hun\x1b[31mter\x1b[0m2", "***\x1b[31m***\x1b[0m*"},
		{"hun\x1b]0;title\x07ter2", "***\x1b]0;title\x07****"},
		{"hun\x1b]0;title\x1b\\ter2", "***\x1b]0;title\x1b\\****"},
		{"hun\x1b(Bter2", "***\x1b(B****"},
		{"hunt \rer2", "**** \r***"},                                 // a shell at the end of a row
		{"huntt\b \ber2", "****t\b \b***"},                           // corrected while it was typed
		{"hunter2\b\b\b\x1b[C\x1b[Cx", "*******\b\b\b\x1b[C\x1b[Cx"}, // the cursor goes back
		{"h\x1b[5;2Hu\x1b[5;3Hn\x1b[5;4Hter2", "*\x1b[5;2H*\x1b[5;3H*\x1b[5;4H****"},
		{"\x1b]633;E;echo hunter2;nonce\x07", "\x1b]633;E;echo *******;nonce\x07"},
		{"\x1b]133;C;cmdline_url=echo%20hunte%722\x07", "\x1b]133;C;cmdline_url=echo%20*********\x07"},
		{"\x1b]633;E;hunte\\x722\x07", "\x1b]633;E;**********\x07"},
		{"\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte("hunter2")) + "\x07", "\x1b]52;c;************\x07"},
		{"\x1b]8;;https://x/hunter2\x1b\\link\x1b]8;;\x1b\\", "\x1b]8;;https://x/*******\x1b\\link\x1b]8;;\x1b\\"},
		{"\x1bPhunter2\x1b\\hunter2\x18", "\x1bP*******\x1b\\*******\x18"},
		{"hunter\x1b[1;1H2 hun\nter2 hun\rter2", "******\x1b[1;1H* hun\nter2 hun\rter2"},
		{"\xff\xfehunter2\xff\x00hunter2", "\xff\xfe*******\xff\x00*******"},
		{"\x1b]0;hunter2", "\x1b]0;*******"},
		{"hun\x1b]633;D;0\x07ter2", "hun\x1b]633;D;0\x07ter2"}, // the end of a command
	} {
		if got := masked(t, literal("hunter2"), c.text); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
		}
	}
}

// What takes the place of characters has their size.
func TestMaskKeepsSizes(t *testing.T) {
	text := "añ中🔑\t\n\r\xffe\u0301"
	b := []byte(text)
	Mask(b, 0, []Range{{0, int64(len(b))}})
	if got := string(b); len(got) != len(text) || got != "*·＊🔒\t\n\r**·" || utf8.RuneCountInString(got) != utf8.RuneCountInString(text) {
		t.Errorf("it is %q", got)
	}
	b = []byte("0123456789")
	Mask(b, 100, []Range{{90, 102}, {105, 106}, {109, 200}, {300, 400}})
	if string(b) != "**234*678*" {
		t.Errorf("it is %q", b)
	}
}

// A text in pieces is masked as a whole one is.
func TestMaskInPieces(t *testing.T) {
	var all []Range
	for at := int64(3); at < 1000; at += 7 {
		all = append(all, Range{at, at + at%6 + 1})
	}
	whole, cut := []byte(strings.Repeat("x", 1000)), []byte(strings.Repeat("x", 1000))
	Mask(whole, 0, all)
	for i := range cut {
		Mask(cut[i:i+1], int64(i), all)
	}
	if string(whole) != string(cut) || strings.Count(string(cut), "*") < 400 {
		t.Errorf("in pieces it is %q, want %q", cut, whole)
	}
}

// A long output is looked at in parts, and what is where they meet is found once.
func TestLongOutput(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, newline := range []string{"\n", "-"} {
		var b strings.Builder
		var want []Range
		for b.Len() < 3*most {
			b.WriteString(strings.Repeat("x", rnd.IntN(9000)) + newline)
			want = append(want, Range{int64(b.Len()), int64(b.Len() + 7)})
			b.WriteString("hunter2")
		}
		got, matches := find(literal("hunter2"), b.String())
		if !slices.Equal(got, want) || matches != len(want) {
			t.Errorf("%d of %d are found in %d ranges", matches, len(want), len(got))
		}
	}
}

// What is found in windows, of which each begins within the one before, is what is found in the whole text, wherever its pieces end.
func TestWindowsFindWhatTheWholeTextHas(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		var text []byte
		for len(text) < 3*most {
			switch random.IntN(12) {
			case 0:
				text = append(text, "key="+strings.Repeat("a", 1+random.IntN(3000))+" "...)
			case 1:
				text = append(text, "BEGIN "+strings.Repeat("line\n", random.IntN(500))+" END"...)
			case 2:
				text = append(text, '\n')
			default:
				text = append(text, strings.Repeat("wörd ", random.IntN(40))...)
			}
			if len(text)-bytes.LastIndexByte(text, '\n') > overlap/4 {
				text = append(text, '\n')
			}
		}
		match := Matching(regexp.MustCompile(`(?m)key=a+|BEGIN [^B]* END|^wörd wörd wörd $`))
		want := slices.Clone(text)
		Mask(want, 0, Merge(match(text)))
		var found []Range
		f := NewFinder(match, func(r Range, _ bool) { found = append(found, r) })
		for rest := text; len(rest) > 0; {
			n := min(1+random.IntN(2*most/3), len(rest))
			f.Write(rest[:n])
			rest = rest[n:]
		}
		f.End()
		got := slices.Clone(text)
		Mask(got, 0, Merge(found))
		if bytes.Equal(got, text) {
			t.Fatal("nothing is found")
		}
		for at := range got {
			if got[at] != want[at] {
				t.Fatalf("seed %d: at %d of %d it is %q, want %q", seed, at, len(got), got[max(at-40, 0):at+10], want[max(at-40, 0):at+10])
			}
		}
	}
}

func TestMerge(t *testing.T) {
	got := Merge([]Range{{5, 6}, {1, 3}, {2, 4}, {4, 4}, {4, 5}})
	if want := []Range{{1, 4}, {4, 5}, {5, 6}}; !slices.Equal(got, want) {
		t.Errorf("it is %v", got)
	}
}

// Nothing that is printed breaks a Finder; what it finds is within, and masked bytes are as long.
func FuzzFinder(f *testing.F) {
	for _, p := range positive {
		f.Add([]byte(p.before+p.secret+p.after), uint64(1))
	}
	f.Add([]byte("hun\x1b[31mter\x1b]633;E;\\x41\x07\b\r\n"), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := string(b); len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		for _, match := range []Matcher{Secrets, Matching(regexp.MustCompile(`[a-z]+\d?`))} {
			whole, _ := find(match, string(b))
			cut, _ := find(match, pieces...)
			if !slices.Equal(whole, cut) {
				t.Errorf("whole it is %v, in pieces %v", whole, cut)
			}
			for _, r := range whole {
				if r.From < 0 || r.From >= r.To || r.To > int64(len(b)) {
					t.Errorf("%v isn't within %d bytes", r, len(b))
				}
			}
			m := slices.Clone(b)
			Mask(m, 0, whole)
			if len(m) != len(b) || utf8.Valid(b) && !utf8.Valid(m) {
				t.Errorf("%q becomes %q", b, m)
			}
		}
	})
}

func BenchmarkFinder(b *testing.B) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "\x1b[32m%d\x1b[0m some line of a build that goes on and on, file_%d.go: password: none\r\n", i, i)
	}
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		f := NewFinder(Secrets, func(Range, bool) {})
		f.Write(data)
		f.End()
	}
}

// hostile is text whose every line, or one line without an end, has the words of rules over and over.
func hostile(words ...string) []byte {
	var b strings.Builder
	for b.Len() < 1<<17 {
		for _, w := range words {
			b.WriteString(w)
		}
	}
	return []byte(b.String())
}

// What is printed to cost the most costs a bounded part more than what isn't.
func BenchmarkHostile(b *testing.B) {
	for name, text := range map[string][]byte{
		"names": hostile("pass secret token key credential pin "), "curl": hostile("curl a wget b "), "urls": hostile("https://a "), "quotes": hostile("pass:\" token:abcdefg "),
		"all": hostile("curl -u akia aiza ghp_ glpat- xoxb- npm_ sk- eyj bearer basic :// authorization pass secret token key credential private key "),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				f := NewFinder(Secrets, func(Range, bool) {})
				f.Write(text)
				f.End()
			}
		})
	}
}
