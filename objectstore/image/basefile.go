package image

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// keptMark begins what Base.Keep gives, and is authenticated with it.
const keptMark = "diapause-kept-ids-v1\n"

// errKept: it isn't what this host kept, or not any more.
var errKept = errors.New("kept page ids are damaged, or another host's")

// keptHead is the first line of what is kept, inside; the ids follow it, 16 bytes
// each, pack by pack.
type keptHead struct {
	Head    Head       `json:"head"`
	Tenant  string     `json:"tenant"`
	Lineage string     `json:"lineage"`
	Key     LineageKey `json:"key"`
	Hash    []byte     `json:"hash"`
	Packs   []keptPack `json:"packs"`

	Stamps map[string]keptStamp `json:"stamps,omitempty"`
}

type keptPack struct {
	schemas.ImagePack
	Index indexPack `json:"index"`
	Live  int64     `json:"live"`
}

// KeptKey derives the key that a host keeps page ids with from the one that it signs with.
func KeptKey(signer ed25519.PrivateKey) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, signer.Seed(), nil, "diapause: kept page ids", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of kept page ids: %w", err)
	}
	return key, nil
}

func keptCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Keep gives the base as a host may keep it on a disk, encrypted and authenticated
// with a key of its own (of 32 bytes, see KeptKey). It takes about 16 bytes a page.
func (b *Base) Keep(key []byte) ([]byte, error) {
	aead, err := keptCipher(key)
	if err != nil {
		return nil, fmt.Errorf("keep page ids: %w", err)
	}
	head := keptHead{Head: b.head, Tenant: string(b.place.tenant), Lineage: b.place.id, Key: b.key, Hash: b.hash[:], Stamps: b.stamps}
	for _, p := range b.packs {
		head.Packs = append(head.Packs, keptPack{p.ImagePack, p.index, p.live})
	}
	line, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("keep page ids: %w", err)
	}
	plain := append(make([]byte, 0, len(line)+1+b.ids.count*len(pageID{})), line...)
	plain = append(plain, '\n')
	for n := range uint32(b.ids.count) {
		id := b.ids.at(n)
		plain = append(plain, id[:]...)
	}
	return aead.Seal([]byte(keptMark), nil, plain, []byte(keptMark)), nil
}

// RestoreBase reads what Keep gave. Anything else, down to one bit or another key,
// is an error: then a full image is written, or the ids are loaded from the store.
func RestoreBase(data, key []byte) (*Base, error) {
	b, err := restoreBase(data, key)
	if err != nil {
		return nil, fmt.Errorf("restore kept page ids: %w", err)
	}
	return b, nil
}

func restoreBase(data, key []byte) (*Base, error) {
	aead, err := keptCipher(key)
	if err != nil {
		return nil, err
	}
	sealed, ok := bytes.CutPrefix(data, []byte(keptMark))
	if !ok {
		return nil, errKept
	}
	plain, err := aead.Open(nil, nil, sealed, []byte(keptMark))
	if err != nil {
		return nil, errKept
	}
	line, ids, _ := bytes.Cut(plain, []byte{'\n'})
	var head keptHead
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", errKept, err)
	}
	return head.base(ids)
}

func (h keptHead) base(ids []byte) (*Base, error) {
	place, err := newLineage(schemas.Tenant(h.Tenant), h.Lineage)
	if err != nil {
		return nil, err
	}
	b := &Base{head: h.Head, place: place, key: h.Key}
	if copy(b.hash[:], h.Hash) != len(b.hash) {
		return nil, errKept
	}
	for _, p := range h.Packs {
		if p.Pages < 0 || int64(b.total)+p.Pages > maxNumber || p.Index.check(p.ImagePack) != nil {
			return nil, errKept
		}
		b.packs = append(b.packs, basePack{p.ImagePack, p.Index, b.total, p.Live})
		b.total += uint32(p.Pages)
	}
	if uint64(len(ids)) != uint64(b.total)*uint64(len(pageID{})) {
		return nil, errKept
	}
	for at := 0; at < len(ids); at += len(pageID{}) {
		b.ids.add(pageID(ids[at:]))
	}
	b.stamps = h.Stamps
	if err := b.checkStamps(); err != nil {
		return nil, err
	}
	return b, nil
}
