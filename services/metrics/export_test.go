package metrics

import "github.com/prometheus/client_golang/prometheus"

// Registry is where the meter's counts are registered.
func (m *Meter) Registry() *prometheus.Registry { return m.registry }
