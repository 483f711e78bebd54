// Package image is the snapshot format: a session's captured files and memory as
// signed, encrypted, deduplicated objects in an object store.
//
// The way through it, writing: Create begins an image, Writer.Add cuts each
// file into pages (cut.go) and refers to the ones that are known (table.go), those of
// the parent snapshot among them (base.go); new pages are compressed, encrypted and
// stored in packs (packer.go, entropy.go); Writer.Commit writes the index and the signed
// header last (commit.go). Reading: Open verifies the header against the head
// that the session's record names (fetch.go, header.go), then the index
// (index.go), and Reader.Open and Reader.ReaderAt give contents (file.go) out of
// packs that are verified as they are read (pack.go), without a copy for a Borrower. Reader.Place writes many files
// in one pass over the packs (place.go, window.go), and Reader.Sequence keeps what files that
// are read in order need again (spill.go): either way no frame is decoded twice. keychoice.go picks the lineage
// key, keywrap.go says how it is wrapped to its readers, Rewrap changes who they are,
// and TrustedWhen who may have written. List, DeleteSnapshot,
// DeleteLineage and Collect keep house, the first three without any secret.
// A host may keep a Base on its disk, encrypted to itself (basefile.go): it matches pages
// against it without being able to read an image.
// FORMAT.md describes the format well enough to read images without this package.
//
// Reading, hashing, compressing, encrypting and storing go on at the same time on all
// cores, with a bounded number of buffers between them. Measured with `go test -run - -bench .
// ./image` on two cores (Xeon, load average 3 to 4), with 256 MiB of which half is text, a
// quarter like pointers and a quarter random, no page like another: a first image is
// written at 310 to 340 MB/s (330 to 370 MB/s with `zstd -1 -T2 | age` on the same bytes), to
// 1/1.4 of its size; at 230 to 260 MB/s if WriteOptions.Dense, to 1/1.75; once more, all of it
// matched, at 1,900 to 2,000 MB/s; it is read at 810 to 830 MB/s. A 4 GB image has an index of 127 kB.
//
// It never puts plaintext anywhere but into the memory of the process, never
// changes an object, never hands out a byte that hasn't been verified against
// the head, and never decides which snapshot is a session's head or which may be
// deleted: the session record and retention decide that.
package image
