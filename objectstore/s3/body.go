package s3

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/diapause/diapause/objectstore"
)

// body is the content of one PUT. It gives exactly size bytes, the last of them
// only after the source has shown that it has no more: until then the server has
// nothing whole. It fails once its context has ended, so that nothing becomes
// whole after that either.
type body struct {
	ctx    context.Context
	source io.Reader
	size   int64
	read   int64
	err    error // what is wrong with the source, or the context's
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	left := b.size - b.read
	if left == 0 {
		return 0, io.EOF
	}
	n, err := b.source.Read(p[:min(int64(len(p)), left)])
	b.read += int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		b.err = err
	case err != nil && b.read < b.size:
		b.err = fmt.Errorf("%w: %d bytes, want %d", objectstore.ErrSize, b.read, b.size)
	case b.read == b.size:
		b.err = b.end()
	}
	if b.err == nil {
		b.err = b.ctx.Err()
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, nil
}

// end checks that the source has nothing more.
func (b *body) end() error {
	for {
		n, err := b.source.Read(make([]byte, 1))
		switch {
		case n > 0:
			b.err = fmt.Errorf("%w: more than %d bytes", objectstore.ErrSize, b.size)
			return b.err
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			b.err = err
			return err
		}
	}
}

// checksum gives the CRC-32C of what is about to be sent, in the words of S3, if
// it can be read twice. Known before the first byte, it goes in front of them: a
// server can then take an upload that breaks off for whole in no case. (Where it
// comes after the content, versitygw 1.8 now and then keeps what has arrived.)
// Signing the content besides would cost both sides a third of their time, and
// tell the server nothing more about damage on the way.
func checksum(r io.Reader, size int64) (sum string, known bool) {
	seeker, ok := r.(io.ReadSeeker)
	if !ok || size == 0 {
		return "", false
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", false
	}
	crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.CopyN(crc, seeker, size)
	if _, back := seeker.Seek(start, io.SeekStart); back != nil {
		return "", false
	}
	if err != nil || n != size {
		return "", false // body says what is wrong
	}
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc.Sum32())), true
}
