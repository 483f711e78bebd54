package s3

import (
	"net/url"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// For any URL of a store: what is taken has a bucket, a server and a prefix that
// objects may have, and no error repeats what may be a password.
func FuzzParse(f *testing.F) {
	const secret = "s3cret-of-the-bucket"
	for _, s := range []string{
		"s3://b", "s3://b/p/q/?region=eu-west-1", "s3://b?endpoint=http://h:9000&path-style=false", "s3://k:" + secret + "@b",
		"s3://b?endpoint=https://k:" + secret + "@h", "s3://b?endpoint=https://k:" + secret + "@h/x", "s3://b?secret_key=" + secret, "s3://b/%2e%2e/x",
		"s3://b?endpoint=https://h?x=" + secret, "s3://b?x;y=" + secret, "http://b", "s3://" + secret + "%zz",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := Parse(text)
		if err != nil {
			if misplaced(text, secret) && strings.Contains(err.Error(), secret) {
				t.Fatalf("the error has the secret in it: %v", err)
			}
			return
		}
		if o.Bucket == "" || o.Endpoint == "" || strings.ContainsAny(o.Endpoint, "/@?#") || o.Prefix != "" && objectstore.CheckName(o.Prefix) != nil {
			t.Fatalf("%q is taken for %+v", text, o)
		}
		if u, err := url.Parse(text); err != nil || u.User != nil {
			t.Fatalf("%q is taken with the user %v, %v", text, u, err)
		}
	})
}

// misplaced reports whether a secret stands in a URL where people put one, and nowhere else.
func misplaced(text, secret string) bool {
	u, err := url.Parse(text)
	if err != nil || strings.Count(text, secret) != 1 {
		return false
	}
	if password, _ := u.User.Password(); password == secret {
		return true
	}
	for name, values := range u.Query() {
		known := name == "region" || name == "path-style" || name == "ca" || name == "profile"
		if endpoint, err := url.Parse(values[0]); name == "endpoint" && err == nil && endpoint.User == nil && !strings.Contains(endpoint.RawQuery, secret) {
			known = true // it is the host, or a path
		}
		if !known && strings.Contains(values[0], secret) {
			return true
		}
	}
	return false
}
