// Package traces shows what a collector of OpenTelemetry hears of a real installation: the trace of each operation,
// nothing of what sessions hold; and that a collector which is away delays nothing.
//
// The package has tests alone. They need root and an installed CRIU.
package traces
