// Package image is the snapshot format: a session's captured files and memory as
// signed, encrypted, deduplicated objects in an object store.
//
// The way through it, writing: Create begins an image, Writer.Add cuts each
// file into pages (cut.go) and refers to the ones that are known, those of the
// parent snapshot among them (base.go); new pages are compressed, encrypted and
// stored in packs (packer.go); Writer.Commit writes the index and the signed
// header last (commit.go). Reading: Open verifies the header against the head
// that the session's record names (fetch.go, header.go), then the index
// (index.go), and Reader.Open and Reader.ReaderAt give contents (file.go) out of
// packs that are verified as they are read (pack.go). keychoice.go picks the lineage
// key, keywrap.go says how it is wrapped to its readers, Rewrap changes who they are,
// and TrustedWhen who may have written. List, DeleteSnapshot,
// DeleteLineage and Collect keep house, the first three without any secret.
// FORMAT.md describes the format well enough to read images without this package.
//
// It never puts plaintext anywhere but into the memory of the process, never
// changes an object, never hands out a byte that hasn't been verified against
// the head, and never decides which snapshot is a session's head or which may be
// deleted: that is the session record's, and its keepers'.
package image
