// Package s3 suspends real sessions to real S3 servers, and breaks these in the
// middle: killed, full, denying access.
package s3
