package run

import (
	"io"
	"log/slog"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/janitor"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/turns"
)

// Process is what every process has that runs until it is interrupted.
type Process struct {
	Version string    // of the program: semantic
	Metrics string    // address that metrics and health are served at; nowhere if empty
	Out     io.Writer // notices for the person who started it
	Log     *slog.Logger
}

// NATS says which server a process uses.
type NATS struct {
	URL    string // the server; one in this process if empty
	Creds  string // file of credentials for URL
	Listen string // host:port of the one in this process; port 0 takes a free one
}

// Keys says who reads images besides the host's own key.
type Keys struct {
	IdentityFiles []string // further age identities that open images
	Recipients    []string // further age recipients of new images
	SuspendOnly   bool     // the host's own key opens no image
}

// Images says where images are stored.
type Images struct {
	Store string // the name of a store, as Locate reads it
	Moved bool   // the images were copied there from the store of before
}

// Host is how this host runs sessions.
type Host struct {
	Capture driver.Way // how memory goes into an image and back
	Budget  image.Budget
	Dense   bool          // first images are made small rather than fast
	Lease   time.Duration // how long the host counts as there after its last renewal
	Slots   int           // sessions it has room for; no limit if 0
	Docker  string        // the engine's address, as Engine reads it
	Labels  map[string]string
	Hidden  []string // files and directories that sessions don't see, besides those of the configuration
	Direct  Direct

	SearchMemory int64 // bytes; what a search keeps in memory for the next

	EndWithMachine bool // when the machine shuts down, sessions aren't suspended

	Operations turns.Limits // how many captures and restores go on at a time
}

// Direct is where clients connect to this host without the NATS server between; nowhere if Advertise is
// empty.
type Direct struct {
	Advertise string // host:port that clients are told; with port 0 one that is free
	Listen    string // host:port to listen at, if that isn't Advertise
}

// Recovery says how lost records of sessions are made again.
type Recovery struct {
	Force   bool             // without a sign that some were lost
	Without []schemas.HostID // hosts that are gone for good: what they know isn't waited for
}

// Control is how the parts behave that decide about sessions and answer clients.
type Control struct {
	Retention janitor.Policy
	Usage     time.Duration // between two events of what sessions used; never if 0
	Network   string        // of process trees that don't say which they want; schemas.DefaultNetwork if empty
	// Defaults are what all parts hold sessions to where no policy says otherwise. An API doesn't set any.
	Defaults []schemas.PolicyDefault
}

// UpConfig is all that Up needs.
type UpConfig struct {
	Process
	Data     string // the data directory
	NATS     NATS
	Keys     Keys
	Images   Images
	Host     Host
	Recovery Recovery
	Control  Control
	HTTP     string // address of the gateway, on loopback; none if empty
	Web      WebConfig
	// Person is set if one reads Out as it is written, who gets a link to log in with.
	Person bool
}

// WorkerConfig is all that Worker needs. Its NATS server is another process's.
type WorkerConfig struct {
	Process
	ID     schemas.HostID // of the host, which its data directory keeps; made up at the first start if empty
	Data   string
	NATS   NATS
	Keys   Keys
	Images Images
	Host   Host
}

// SchedulerConfig is all that Scheduler needs. Its NATS server is another process's.
type SchedulerConfig struct {
	Process
	NATS NATS
	Name string // among the schedulers; one that no other has if empty
}

// APIConfig is all that API needs. Its NATS server is another process's.
type APIConfig struct {
	Process
	NATS          NATS
	Name          string   // among those that answer clients; one that no other has if empty
	Store         string   // the name of the store that the hosts use, as Locate reads it
	IdentityFiles []string // age identities that open images; without any it reads their headers alone
	Control       Control
}

// GatewayConfig is all that Gateway needs. Its NATS server is another process's.
type GatewayConfig struct {
	Process
	NATS    NATS
	Name    string                // of the part, which listens where `ingress add --part` says so; GatewayPart if empty
	Listen  gateway.ListenOptions // but for TLS, which Web has
	Web     WebConfig
	Hosts   []string // names under which clients reach it
	Origins []string // of pages that may ask it, besides its own
	// NoPublicPorts has ports that are public take a token all the same.
	NoPublicPorts bool
}

// StreamsConfig is all that Streams needs.
type StreamsConfig struct {
	Log      *slog.Logger
	NATS     NATS
	Replicas int           // of each stream
	Wait     time.Duration // for the servers to be a cluster that has so many
}
