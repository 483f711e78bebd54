// Package keykv keeps who may read and write a tenant's images in a NATS KV
// bucket, and changes that by compare-and-swap only.
//
// One record is every tenant's, under the empty tenant; each tenant may have one
// of its own. Every revision stays and says who made it and why, so that it can be
// told later whether a writer was trusted at some moment. Outcomes of a change are
// those of package cas.
//
// The package holds no secret and never decides what a change is: its callers'
// functions say what they make of a record.
package keykv
