// Package rootfs makes root file systems for sessions out of container images.
//
// A reference (reference.go) names an image in a registry, in a tar of "docker save", in an OCI
// layout, or in this host's Docker engine; resolve.go finds the image, for this machine's
// architecture, and its digest. A Store (store.go) has what was unpacked, once per host and digest,
// in a directory:
//
//	sha256-HEX/manifest      the image's manifest, which has that digest
//	sha256-HEX/blobs/HEX     its config and its layers, as the manifest names them
//	sha256-HEX/tree/         the files; the lower layer of an overlay, never written to
//	users/UID.json           which session uses which root, from its start until its release
//	new-*, old-*             being made, being removed
//	lock, locks/             flocks, among processes
//
// A root has its name only when it is complete and on the disk, so that what a crash leaves is
// never taken for one; the next Open removes that. A root is removed with its last user.
//
// Each blob is verified by its digest while it is copied (fetch.go), and each layer by the digest
// of its content while it is unpacked (unpack.go). What the archives say is not trusted: nothing is
// made, followed or removed outside the tree, and sizes and numbers are bounded (limits.go).
//
// Config.Fill gives what a session isn't told from the image's own configuration (config.go).
package rootfs
