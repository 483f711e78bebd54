package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver"
)

// device gives the number of a device in a tar file, as stat does.
func device(h *tar.Header) uint64 { return unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)) }

// numbers gives the major and minor number of a device.
func numbers(rdev uint64) (major, minor int64) {
	return int64(unix.Major(rdev)), int64(unix.Minor(rdev))
}

// Engines that don't keep layers in directories of this host export and import the file system of
// a container through their API. Volumes aren't part of it.

// paxXattr is the prefix of extended attributes in a tar file.
const paxXattr = "SCHILY.xattr."

// addExport adds the file system of a container as the engine exports it.
func (cp *capturer) addExport(ctx context.Context, sink driver.Sink, id string, m *description) error {
	r, err := cp.engine.ContainerExport(ctx, id, client.ContainerExportOptions{})
	if err != nil {
		return cp.engine.failed("export the file system of container "+m.Name, err)
	}
	defer r.Close()
	if err := sink.Add(image.Entry{Name: partRoot, Type: image.TypeDir, Mode: 0o755}, nil); err != nil {
		return err
	}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the exported file system: %w", err)
		}
		e, ok := entryOfTar(h)
		if !ok {
			continue
		}
		var content io.Reader
		if e.Type == image.TypeFile {
			content = t
		}
		if err := sink.Add(e, content); err != nil {
			return err
		}
	}
}

// entryOfTar gives the entry of a file in a tar; ok is false for the root itself.
func entryOfTar(h *tar.Header) (e image.Entry, ok bool) {
	name := strings.Trim(path.Clean("/"+h.Name), "/")
	if name == "" {
		return e, false
	}
	e = image.Entry{
		Name: partRoot + "/" + name, Mode: uint32(h.Mode) & 0o7777, UID: uint32(h.Uid), GID: uint32(h.Gid), MTime: h.ModTime.UnixNano(),
	}
	for k, v := range h.PAXRecords {
		if attr, ok := strings.CutPrefix(k, paxXattr); ok {
			if e.Xattrs == nil {
				e.Xattrs = map[string][]byte{}
			}
			e.Xattrs[attr] = []byte(v)
		}
	}
	switch h.Typeflag {
	case tar.TypeReg:
		e.Type, e.Size = image.TypeFile, h.Size
	case tar.TypeDir:
		e.Type = image.TypeDir
	case tar.TypeSymlink:
		e.Type, e.Link = image.TypeSymlink, h.Linkname
	case tar.TypeLink:
		e.Type, e.Link, e.Xattrs = image.TypeHardlink, partRoot+"/"+strings.Trim(path.Clean("/"+h.Linkname), "/"), nil
	case tar.TypeChar:
		e.Type, e.Rdev = image.TypeChar, device(h)
	case tar.TypeBlock:
		e.Type, e.Rdev = image.TypeBlock, device(h)
	case tar.TypeFifo:
		e.Type = image.TypeFIFO
	default:
		return e, false
	}
	return e, true
}

// importRoot makes an image of the file system that a snapshot holds.
func (b *baseImages) importRoot(ctx context.Context, n *note) (string, error) {
	n.Image = fmt.Sprintf("%s%s:%d", imagePrefix, strings.ToLower(string(n.UID)), n.Epoch)
	if err := b.notes.write(*n); err != nil {
		return "", err
	}
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pw.CloseWithError(writeTar(ctx, pw, b.source))
	}()
	defer func() { pr.Close(); <-done }()
	got, err := b.engine.ImageImport(ctx, client.ImageImportSource{Source: pr, SourceName: "-"}, n.Image, client.ImageImportOptions{
		Changes: []string{"LABEL " + labelUID + "=" + string(n.UID)},
	})
	if err != nil {
		return "", b.engine.failed("import the file system of container "+b.meta.Name, err)
	}
	defer got.Close()
	said, err := io.ReadAll(got)
	if err != nil {
		return "", b.engine.failed("import the file system of container "+b.meta.Name, err)
	}
	if _, err := b.engine.ImageInspect(ctx, n.Image); err != nil {
		return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("import the file system of container %s: the engine says %q", b.meta.Name, strings.TrimSpace(string(said))), Err: err}
	}
	return n.Image, nil
}

// writeTar writes the file system of an image as a tar file.
func writeTar(ctx context.Context, w io.Writer, source driver.Source) error {
	t := tar.NewWriter(w)
	for _, e := range source.Entries() {
		rel, ok := strings.CutPrefix(e.Name, partRoot+"/")
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeTarEntry(t, source, e, rel); err != nil {
			return fmt.Errorf("restore %s: %w", e.Name, err)
		}
	}
	return t.Close()
}

func writeTarEntry(t *tar.Writer, source driver.Source, e image.Entry, rel string) error {
	h := &tar.Header{
		Name: rel, Mode: int64(e.Mode), Uid: int(e.UID), Gid: int(e.GID), ModTime: time.Unix(0, e.MTime), Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	for k, v := range e.Xattrs {
		h.PAXRecords[paxXattr+k] = string(v)
	}
	switch e.Type {
	case image.TypeFile:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	case image.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, rel+"/"
	case image.TypeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	case image.TypeHardlink:
		h.Typeflag, h.Linkname = tar.TypeLink, strings.TrimPrefix(e.Link, partRoot+"/")
	case image.TypeChar, image.TypeBlock:
		h.Typeflag = tar.TypeChar
		if e.Type == image.TypeBlock {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = numbers(e.Rdev)
	case image.TypeFIFO:
		h.Typeflag = tar.TypeFifo
	}
	if err := t.WriteHeader(h); err != nil || e.Type != image.TypeFile {
		return err
	}
	r, err := source.Open(e.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(t, r)
	return err
}
