package s3

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/objectstore"
)

// Options say where the bucket is and how to reach it.
type Options struct {
	Endpoint  string // host[:port]; Amazon's if empty
	Insecure  bool   // http instead of https
	Bucket    string
	Prefix    string // of all objects, without a slash at its end; may be empty
	Region    string // asked of the server if empty
	PathStyle bool   // the bucket in the path, not in the host's name
	CAFile    string // further certificates to trust, PEM
	Profile   string // of the shared credentials file
}

// Parse reads the URL of a store:
//
//	s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path-style=BOOL&ca=FILE&profile=NAME]
//
// endpoint is http:// or https:// and a host, Amazon's where it is missing. The
// bucket is looked for in the path, not in the host's name, unless the endpoint is
// Amazon's or path-style says otherwise. ca is a file of PEM certificates to trust
// besides the system's. Credentials don't belong here; see Open.
func Parse(text string) (Options, error) {
	o, err := parse(text)
	if err != nil {
		return Options{}, fmt.Errorf("store %q: %w: want s3://BUCKET/PREFIX?endpoint=https://HOST", redact(text), err)
	}
	return o, nil
}

// redact leaves out what may be a password: people give one where none belongs.
func redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "s3://…"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}

func parse(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Options{}, errors.New("it isn't a URL")
	}
	switch {
	case u.Scheme != "s3":
		return Options{}, fmt.Errorf("the scheme is %q", u.Scheme)
	case u.User != nil:
		return Options{}, errors.New("credentials belong into the environment or a file")
	case u.Host == "":
		return Options{}, errors.New("it names no bucket")
	}
	o := Options{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), PathStyle: true}
	if o.Prefix != "" {
		if err := objectstore.CheckName(o.Prefix); err != nil {
			return Options{}, fmt.Errorf("prefix: %w", err)
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Options{}, err
	}
	return o, o.set(query)
}

func (o *Options) set(query url.Values) error {
	for name := range query {
		if !slices.Contains([]string{"endpoint", "region", "path-style", "ca", "profile"}, name) {
			return fmt.Errorf("unknown parameter %q", name)
		}
	}
	o.Region, o.CAFile, o.Profile = query.Get("region"), query.Get("ca"), query.Get("profile")
	if err := o.setEndpoint(query.Get("endpoint")); err != nil {
		return err
	}
	if style := query.Get("path-style"); style != "" {
		var err error
		if o.PathStyle, err = strconv.ParseBool(style); err != nil {
			return fmt.Errorf("path-style %q is neither true nor false", style)
		}
	}
	if o.CAFile != "" {
		if _, err := os.Stat(o.CAFile); err != nil {
			return fmt.Errorf("ca: %w", err)
		}
	}
	return nil
}

const amazon = "s3.amazonaws.com"

func (o *Options) setEndpoint(text string) error {
	if text == "" {
		o.Endpoint, o.PathStyle = amazon, false
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		return errors.New("endpoint: credentials belong into the environment or a file")
	case err != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("endpoint is not http://HOST or https://HOST")
	case u.Host == "" || strings.Trim(u.Path, "/") != "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("endpoint %q is not http://HOST or https://HOST", text)
	}
	o.Endpoint, o.Insecure = u.Host, u.Scheme == "http"
	if strings.HasSuffix(u.Hostname(), "amazonaws.com") {
		o.PathStyle = false
	}
	return nil
}
