package direct

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// What a client of any version sends.
func TestRedemptionIsKept(t *testing.T) {
	want := "444941444952" + "01" + "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" + "1f90" + "09" + "742f73657373696f6e"[:18]
	secret := make([]byte, secretSize)
	for i := range secret {
		secret[i] = byte(i)
	}
	b, err := redemption{secret, 8080, "t/session"}.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("a client sends\n%s, want\n%s", got, want)
	}
	if _, err := (redemption{secret[1:], 80, "s"}).append(nil); err == nil {
		t.Error("a short secret is sent")
	}
	if _, err := (redemption{secret, 80, string(make([]byte, 256))}).append(nil); err == nil {
		t.Error("a long name is sent")
	}
}

// A client without a grant may send anything: what is read is what was written, and nothing after it.
func FuzzRedemption(f *testing.F) {
	b, err := redemption{make([]byte, secretSize), 80, "name"}.append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(b, "more"...))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		r, err := readRedemption(in)
		if err != nil {
			return
		}
		back, err := r.append(nil)
		if err != nil || !bytes.Equal(back, data[:len(data)-in.Len()]) {
			t.Errorf("of %x it reads %+v: %v", data, r, err)
		}
	})
}
