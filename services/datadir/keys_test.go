package datadir

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
)

func TestKeysStayTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	d := open(t, path)
	first, err := d.Keys(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.IdentityFile != filepath.Join(path, "keys", "identity.txt") || first.SigningFile != filepath.Join(path, "keys", "signing.key") {
		t.Errorf("the keys are said to be in %s and %s", first.IdentityFile, first.SigningFile)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := open(t, path).Keys(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Signer.Equal(second.Signer) {
		t.Error("the second start has another signing key")
	}
	if got := roundTrip(t, first.Recipients, second.Identities); got != "memory" {
		t.Errorf("what the first start encrypted is %q to the second", got)
	}
}

func roundTrip(t *testing.T, to []age.Recipient, with []age.Identity) string {
	t.Helper()
	var box bytes.Buffer
	w, err := age.Encrypt(&box, to...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("memory")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := age.Decrypt(&box, with...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFormatsThatOtherToolsRead(t *testing.T) {
	path := initialised(t)
	text, err := os.ReadFile(filepath.Join(path, keysDir, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	keygen := regexp.MustCompile(`^# created: \d{4}-\d\d-\d\dT\S+\n# public key: age1[a-z0-9]{58}\nAGE-SECRET-KEY-1[A-Z0-9]{58}\n$`)
	if !keygen.Match(text) {
		t.Error("the identity isn't written as age-keygen writes it")
	}
	if text, err = os.ReadFile(filepath.Join(path, keysDir, signingFile)); err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 {
		t.Fatal("the signing key isn't one PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if _, ok := key.(ed25519.PrivateKey); !ok || err != nil {
		t.Errorf("the signing key is a %T (%v), want Ed25519", key, err)
	}
}

func TestAKeyThatIsGoneIsNotMadeAgain(t *testing.T) {
	for _, name := range []string{identityFile, signingFile} {
		t.Run(name, func(t *testing.T) {
			path := initialised(t)
			file := filepath.Join(path, keysDir, name)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, path).Keys(nil, nil)
			wantRefusal(t, err, ErrKeyMissing, file, "backup")
			if _, err := os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("%s was made again", file)
			}
		})
	}
}

func TestUnusableKeys(t *testing.T) {
	const secret = "AGE-SECRET-KEY-1BROKENBUTSECRET"
	for _, name := range []string{identityFile, signingFile} {
		t.Run(name, func(t *testing.T) {
			d := open(t, initialised(t))
			file := d.Join(keysDir, name)
			if err := os.Chmod(file, 0o640); err != nil {
				t.Fatal(err)
			}
			_, err := d.Keys(nil, nil)
			wantRefusal(t, err, ErrAccess, "chmod 600 "+file)
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = d.Keys(nil, nil)
			if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), secret) {
				t.Errorf("damaged key: %v, want an error that names the file and doesn't quote it", err)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFurtherIdentitiesAndRecipients(t *testing.T) {
	x, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "# both\n"+x.String()+"\n"+hybrid.String()+"\n")
	k, err := open(t, initialised(t)).Keys([]string{file}, []string{x.Recipient().String(), hybrid.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Identities) != 3 || len(k.Recipients) != 3 || k.Own == nil {
		t.Fatalf("%d identities and %d recipients, want 3 and 3", len(k.Identities), len(k.Recipients))
	}
	if got := roundTrip(t, k.Recipients[:2], []age.Identity{x}); got != "memory" {
		t.Errorf("the further recipient reads %q", got)
	}
	if got := roundTrip(t, []age.Recipient{hybrid.Recipient()}, k.Identities); got != "memory" {
		t.Errorf("the further identity reads %q", got)
	}
}

func TestBadIdentitiesAndRecipients(t *testing.T) {
	d := open(t, initialised(t))
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	const secret = "AGE-SECRET-KEY-1BROKENBUTSECRET"
	for name, c := range map[string]struct{ identityFile, recipient, says string }{
		"missing file":    {identityFile: filepath.Join(t.TempDir(), "none"), says: "none"},
		"no identity":     {identityFile: write(t, secret), says: "holds no age identities"},
		"empty file":      {identityFile: write(t, ""), says: "holds no age identities"},
		"encrypted file":  {identityFile: write(t, "age-encryption.org/v1\n-> scrypt"), says: "is itself encrypted"},
		"no recipient":    {recipient: "bob", says: `"bob"`},
		"a secret key":    {recipient: secret, says: "secret key"},
		"after a space":   {recipient: " " + secret, says: "secret key"},
		"half of one":     {recipient: hybrid.Recipient().String()[:100], says: "age1pq1"},
		"empty recipient": {recipient: " ", says: "age1"},
	} {
		t.Run(name, func(t *testing.T) {
			var files, recipients []string
			if c.identityFile != "" {
				files = []string{c.identityFile}
			} else {
				recipients = []string{c.recipient}
			}
			_, err := d.Keys(files, recipients)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("keys: %v, want an error that says %q", err, c.says)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes the secret: %v", err)
			}
		})
	}
}
