// Package traces shows what a collector of OpenTelemetry hears of a real installation: the trace of each operation,
// nothing of what sessions hold; that a collector which is away delays nothing; and what a log in JSON has.
//
// The package has tests alone. They need root and an installed CRIU.
package traces
