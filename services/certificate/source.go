package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// Options say which certificate a server has: that of files, or one that is made.
type Options struct {
	CertFile string // with those between it and its authority
	KeyFile  string

	Dir   string   // where one is kept that is made here; none is made if empty
	Names []string // that it is for: host names, also with a wildcard, and addresses

	Log *slog.Logger
	Now func() time.Time // time.Now if nil
}

// Source is the certificate of a server. It may be used from many goroutines at once.
type Source struct {
	Options

	mu       sync.Mutex
	current  *tls.Certificate
	seen     [2]stamp  // of the files, as they were read last, also in vain
	tried    time.Time // when one was to be made again in vain
	complain string    // what was logged last of files that can't be read
}

// Open reads the certificate, or makes one where there is none that is good for the names.
func Open(o Options) (*Source, error) {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("TLS takes a certificate and its key")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Source{Options: o}
	if o.CertFile == "" {
		s.CertFile, s.KeyFile = s.file(selfFile), s.file(selfFile)
		if err := s.make(false); err != nil {
			return nil, fmt.Errorf("make a certificate in %s: %w", o.Dir, err)
		}
	}
	s.seen = s.stamps()
	cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	s.current = &cert
	return s, nil
}

// Config is what a listener takes.
func (s *Source) Config() *tls.Config {
	return &tls.Config{GetCertificate: s.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// get gives the certificate for a client that connects.
func (s *Source) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renew()
	s.refresh()
	return s.current, nil
}

// tryAgain is the pause after a certificate couldn't be made again.
const tryAgain = time.Minute

// renew makes the certificate again that is near its end, if it is one of ours; s.mu is locked.
func (s *Source) renew() {
	now := s.Now()
	if !s.self() || !nearEnd(s.current.Leaf, now) || now.Sub(s.tried) < tryAgain {
		return
	}
	if err := s.make(true); err != nil {
		s.tried = now
		s.Log.Error("the certificate can't be made again", "dir", s.Dir, "until", s.current.Leaf.NotAfter, "err", err)
	}
}

// refresh reads files again that have changed; s.mu is locked. What can't be read is logged once.
func (s *Source) refresh() {
	now := s.stamps()
	if now == s.seen {
		return
	}
	s.seen = now
	cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		if text := err.Error(); text != s.complain {
			s.complain = text
			s.Log.Error("the new certificate can't be read, the one of before is kept", "file", s.CertFile, "until", s.current.Leaf.NotAfter, "err", err)
		}
		return
	}
	s.current, s.complain = &cert, ""
	s.Log.Info("the certificate was read again", "file", s.CertFile, "until", cert.Leaf.NotAfter, "sha256", Fingerprint(cert.Leaf))
}

// Leaf gives the certificate that clients get now.
func (s *Source) Leaf() *x509.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Leaf
}

// stamp tells whether a file is another one than before.
type stamp struct {
	inode        uint64
	size         int64
	mtime, ctime time.Time
	missing      bool
}

func (s *Source) stamps() [2]stamp { return [2]stamp{stampOf(s.CertFile), stampOf(s.KeyFile)} }

func stampOf(file string) stamp {
	info, err := os.Stat(file) // of what a link leads to, which is what renewals often change
	if err != nil {
		return stamp{missing: errors.Is(err, fs.ErrNotExist)}
	}
	st := stamp{size: info.Size(), mtime: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		st.inode, st.ctime = sys.Ino, time.Unix(sys.Ctim.Unix())
	}
	return st
}
