// Package observe shows that dashboard.json and alerts.yml of services/metrics work: each of their queries is asked of
// a real Prometheus that scrapes a real installation. Grafana isn't there: of the dashboard its form is checked.
//
// The package has tests alone. They need root and an installed CRIU, and with DIAPAUSE_LONG=1 Prometheus (install.sh).
package observe
