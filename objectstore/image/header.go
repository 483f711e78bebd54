package image

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// magic is the first line of a snapshot object. It is signed with the header, so
// that a signature made for anything else is none for an image.
const magic = "diapause-image-v1\n"

// maxHeader bounds the clear part of a snapshot: some 10,000 packs.
const maxHeader = 4 << 20

// errShort is returned for data that may be the beginning of a header.
var errShort = errors.New("the header is cut short")

// signedHeader is the clear part of a snapshot: three lines, of which the last is
// the signature over the two before it.
type signedHeader struct {
	signed    []byte // magic and the header's line, as stored
	signature []byte
	header    schemas.ImageHeader
	size      int64 // of the three lines
}

// signHeader makes the clear part of a snapshot, and its digest.
func signHeader(h schemas.ImageHeader, key ed25519.PrivateKey) (clear []byte, digest string, err error) {
	if err := checkHeader(h); err != nil {
		return nil, "", err
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, "", fmt.Errorf("encode header: %w", err)
	}
	signed := append([]byte(magic), line...)
	signed = append(signed, '\n')
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed))
	clear = append(signed[:len(signed):len(signed)], signature...)
	if len(clear) >= maxHeader {
		return nil, "", fmt.Errorf("encode header: %d bytes are more than %d: too long a description?", len(clear), maxHeader)
	}
	return append(clear, '\n'), hexDigest(signed), nil
}

// splitHeader finds the three lines at the beginning of a snapshot object.
func splitHeader(data []byte) (signedHeader, error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		if bytes.HasPrefix([]byte(magic), data) {
			return signedHeader{}, errShort
		}
		return signedHeader{}, errors.New("it does not begin as an image of version 1")
	}
	line := bytes.IndexByte(data[len(magic):], '\n') + 1
	if line == 0 {
		return signedHeader{}, errShort
	}
	signed := data[:len(magic)+line]
	end := bytes.IndexByte(data[len(signed):], '\n')
	if end < 0 {
		return signedHeader{}, errShort
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(string(data[len(signed) : len(signed)+end]))
	if err != nil {
		return signedHeader{}, fmt.Errorf("the signature is not base64: %w", err)
	}
	return signedHeader{signed: signed, signature: signature, size: int64(len(signed) + end + 1)}, nil
}

// parse reads the header's line. It believes nothing of it yet.
func (s *signedHeader) parse() error {
	if err := json.Unmarshal(s.signed[len(magic):], &s.header); err != nil {
		return fmt.Errorf("the header is not JSON: %w", err)
	}
	return checkHeader(s.header)
}

func (s signedHeader) digest() string { return hexDigest(s.signed) }

// verify checks the signature against the keys that the signer may have used.
func (s signedHeader) verify(trusted Trusted) error {
	h := s.header
	var keys []ed25519.PublicKey
	if trusted != nil {
		keys = trusted(string(h.Tenant), string(h.Signer))
	}
	if len(keys) == 0 {
		return fmt.Errorf("%w: its writer %q is not known for tenant %q", ErrForged, h.Signer, h.Tenant)
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, s.signed, s.signature) {
			return nil
		}
	}
	return fmt.Errorf("%w: its signature is not one of writer %q", ErrForged, h.Signer)
}

// checkHeader refuses a header that could not have been written by this package.
func checkHeader(h schemas.ImageHeader) error {
	if h.Version != schemas.ImageVersion {
		return fmt.Errorf("the image has version %d, this program reads version %d", h.Version, schemas.ImageVersion)
	}
	if _, err := newLineage(h.Tenant, h.Lineage); err != nil {
		return err
	}
	if err := checkTokens(h.Session, h.UID, h.Signer); err != nil {
		return err
	}
	if h.KID != kidOf(h.Recipient) {
		return errors.New("the lineage key's id is not that of its recipient")
	}
	if err := checkObject("index", h.Index); err != nil {
		return err
	}
	return checkPacks(h.Packs)
}

func checkTokens(session schemas.SessionID, uid schemas.UID, signer schemas.HostID) error {
	for _, c := range [][2]string{{"session", string(session)}, {"uid", string(uid)}, {"signer", string(signer)}} {
		if !schemas.ValidToken(c[1]) {
			return fmt.Errorf("%s %q: want 1 to 64 of A-Z a-z 0-9 _ -", c[0], c[1])
		}
	}
	return nil
}

func checkPacks(packs []schemas.ImagePack) error {
	seen := make(map[string]bool, len(packs))
	for _, p := range packs {
		if !isHex(p.Name, 32) || !isHex(p.KID, 16) || seen[p.Name] {
			return fmt.Errorf("pack %.40q: invalid or listed twice", p.Name)
		}
		seen[p.Name] = true
		if p.Pages <= 0 || p.Pages > maxPackPages {
			return fmt.Errorf("pack %s: %d pages, want 1 to %d", p.Name, p.Pages, maxPackPages)
		}
		if err := errors.Join(checkObject("pack "+p.Name, digested(p)), checkObject("ids of pack "+p.Name, p.IDs)); err != nil {
			return err
		}
	}
	return nil
}

// maxObject bounds the size of any object of an image.
const maxObject = 4 << 30

func checkObject(what string, o schemas.ImageObject) error {
	if o.Size <= 0 || o.Size > maxObject || !isHex(o.SHA256, 64) {
		return fmt.Errorf("%s: invalid size %d or digest %.70q", what, o.Size, o.SHA256)
	}
	return nil
}

// digested gives the pack's object with whichever digest it has.
func digested(p schemas.ImagePack) schemas.ImageObject {
	if p.SHA256 == "" {
		return schemas.ImageObject{Size: p.Size, SHA256: p.Spans}
	}
	return p.ImageObject
}

func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func objectOf(data []byte) schemas.ImageObject {
	return schemas.ImageObject{Size: int64(len(data)), SHA256: hexDigest(data)}
}

// meets checks the header against what the caller expects.
func (e Expect) meets(h schemas.ImageHeader) error {
	var errs []error
	differ := func(what string, got, want any) {
		errs = append(errs, fmt.Errorf("%w: it is of %s %v, not %v", ErrForged, what, got, want))
	}
	if e.Tenant != "" && h.Tenant != e.Tenant {
		differ("tenant", h.Tenant, e.Tenant)
	}
	if e.Session != "" && h.Session != e.Session {
		differ("session", h.Session, e.Session)
	}
	if e.UID != "" && h.UID != e.UID {
		differ("session uid", h.UID, e.UID)
	}
	if e.Lineage != "" && h.Lineage != e.Lineage {
		differ("lineage", h.Lineage, e.Lineage)
	}
	if e.Signer != "" && h.Signer != e.Signer {
		differ("host", h.Signer, e.Signer)
	}
	if e.Epoch != nil && h.Epoch != *e.Epoch {
		differ("epoch", h.Epoch, *e.Epoch)
	}
	if e.Seq != nil && h.Seq != *e.Seq {
		differ("sequence", h.Seq, *e.Seq)
	}
	return errors.Join(errs...)
}
