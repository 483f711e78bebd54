package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/diapause/diapause/objectstore"
)

// Store is an objectstore.Store in a bucket.
type Store struct {
	client *minio.Core
	bucket string
	prefix string // ends in a slash, or is empty
	where  string // for people

	// Conditional reports whether the server refuses to overwrite, as found out
	// by racing writers.
	conditional bool
	versions    versions
}

var _ objectstore.Store = (*Store)(nil)

// Open connects to a bucket that must exist, and tries out whether the server
// keeps writers of one name apart: it writes some objects of a few bytes below
// PREFIX/.probe/ and removes them.
//
// Credentials are taken from the first place that has them: the environment
// (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, then MINIO_ROOT_USER and
// MINIO_ROOT_PASSWORD), the shared file ~/.aws/credentials
// (AWS_SHARED_CREDENTIALS_FILE), the role of the machine or container.
// Errors: objectstore.ErrDenied, ErrFull, and what the network says.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{bucket: o.Bucket, where: "s3://" + o.Bucket + " at " + o.Endpoint}
	if o.Prefix != "" {
		s.prefix = o.Prefix + "/"
	}
	if err := s.open(ctx, o); err != nil {
		return nil, fmt.Errorf("open object store %s: %w", s.where, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	transport, err := newTransport(o.CAFile)
	if err != nil {
		return err
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	s.client, err = minio.NewCore(o.Endpoint, &minio.Options{
		Creds: credentialsOf(o), Secure: !o.Insecure, Region: o.Region, BucketLookup: lookup,
		Transport: transport, TrailingHeaders: true, MaxRetries: 1,
	})
	if err != nil {
		return err
	}
	there, err := s.client.BucketExists(ctx, s.bucket)
	if err != nil {
		return kind(err)
	}
	if !there {
		return fmt.Errorf("there is no bucket %q: create it, or mend the name", s.bucket)
	}
	if s.conditional, err = s.probe(ctx); err != nil {
		return fmt.Errorf("try out writing: %w", err)
	}
	return nil
}

// Conditional reports whether the server keeps racing writers of one name apart.
func (s *Store) Conditional() bool { return s.conditional }

// credentialsOf looks in the usual places, in their usual order.
func credentialsOf(o Options) *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.EnvMinio{},
		&credentials.FileAWSCredentials{Profile: o.Profile},
		&credentials.IAM{Client: &http.Client{Timeout: roleWait}},
	})
}

// roleWait bounds the look for a role: outside a cloud there is no answer.
const roleWait = 3 * time.Second

// The patience with one server. An upload or download may take as long as it
// likes while bytes move.
const (
	dialWait  = 10 * time.Second
	quietWait = time.Minute
)

func newTransport(caFile string) (*http.Transport, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // machines without certificates have the given one
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", caFile)
		}
	}
	dialer := &net.Dialer{Timeout: dialWait, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: quietWait, TLSHandshakeTimeout: dialWait,
		DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{c}, nil
		},
	}, nil
}

// impatient gives up a connection on which nothing moves: a server that is cut
// off without a word would hold up an upload for hours.
type impatient struct{ net.Conn }

func (c *impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(quietWait)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(quietWait)); err != nil {
		return 0, err
	}
	// The answer is waited for from the last byte that was taken on.
	if err := c.SetReadDeadline(time.Now().Add(quietWait)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
