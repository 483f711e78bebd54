// Package client has the ports of package ingress over NATS: it asks the API to look at sessions and to resume them,
// publishes their leases, and connects to their ports as `diapause forward` does, directly to their host where
// that offers it and else through the NATS server.
//
// The way through it: New gives Sessions (client.go), which implement ingress.Waker, ingress.Leaser and
// ingress.Dialer with the rights of the credentials that it connects with. Loopback (loopback.go) is an
// ingress.Authorizer for a proxy that only this machine can reach.
//
// The package never decides what is resumed, and keeps nothing.
package client
