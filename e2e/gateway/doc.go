// Package gateway holds tests of the HTTP API through the real program: sessions live a life over HTTP, and each
// answer is validated against the OpenAPI document (life_test.go); a stream of events is read across restarts
// (events_test.go); tokens of one tenant are tried on every path of the document with a session of
// another (tenants_test.go); and a second gateway runs beside the first (second_test.go). The package has tests alone.
package gateway
