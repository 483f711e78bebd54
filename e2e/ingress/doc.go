// Package ingress holds tests of `diapause ingress` through the real program: requests, uploads and
// connections resume a suspended session and lose nothing, open ones keep it awake, probes do neither, and
// what is forged reaches nothing (ingress_test.go). The server in the session is the test program itself
// (server_test.go). The package has tests alone.
package ingress
