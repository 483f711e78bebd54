// Package schema holds the tests that keep the types of package schemas and the
// committed JSON Schemas in schemas/jsonschema the same, and that what the
// program really writes and prints is valid by them. The package has tests alone;
// `go test ./schema -update` writes the files again.
package schema
