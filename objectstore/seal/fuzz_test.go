package seal

import (
	"errors"
	"strings"
	"testing"

	"filippo.io/age"
)

// Any text in the place of a sealed one: all of what was sealed comes out of it, or
// one of the two errors says why not.
func FuzzUnseal(f *testing.F) {
	classic, err1 := age.GenerateX25519Identity()
	hybrid, err2 := age.GenerateHybridIdentity()
	const plain = "TOKEN=s3cret"
	one, err3 := Seal([]byte(plain), classic.Recipient())
	both, err4 := Seal([]byte(plain), classic.Recipient(), hybrid.Recipient())
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		f.Fatal(err)
	}
	// Of what is fuzzed @ stands for a text that our key opens, and & for one of two parts.
	for _, s := range []string{"@", "&", "word:@", "a:b:@", "@.@", ".@", "@=", "", ".", "YWdl", "&.", "@x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sealed := strings.NewReplacer("@", one, "&", both).Replace(text)
		got, err := Unseal(sealed, classic)
		if err == nil && string(got) != plain {
			t.Fatalf("%q gives %q", text, got)
		}
		if err != nil && (got != nil || !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrCorrupt)) {
			t.Fatalf("%q gives %q and the error %v", text, got, err)
		}
		if word := LabelOf(sealed); strings.Contains(word, ":") {
			t.Fatalf("%q has the label %q", text, word)
		}
	})
}

// What is taken for a public key is one, written the same again; a secret key that was
// given in its place isn't repeated in the answer.
func FuzzParseRecipient(f *testing.F) {
	classic, err1 := age.GenerateX25519Identity()
	hybrid, err2 := age.GenerateHybridIdentity()
	if err := errors.Join(err1, err2); err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		classic.Recipient().String(), hybrid.Recipient().String(), strings.ToUpper(classic.Recipient().String()), hybrid.Recipient().String()[:100],
		classic.String(), hybrid.String(), " " + classic.String(), strings.ToLower(classic.String()), "age1", "age1pq1", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecipient(text)
		if err != nil {
			_, secret, ok := strings.Cut(strings.ToUpper(text), "AGE-SECRET-KEY-")
			if ok && len(secret) > 8 && strings.Contains(strings.ToUpper(err.Error()), secret[:8]) {
				t.Fatalf("the error has the secret key in it: %v", err)
			}
			return
		}
		if s, ok := r.(interface{ String() string }); !ok || s.String() != strings.ToLower(text) {
			t.Fatalf("%q is taken for %v", text, r)
		}
	})
}
