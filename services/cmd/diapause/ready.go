package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/metrics"
)

const readyHelp = `Ask a process that serves --metrics whether all its parts can work, and exit with 0 if so:
a health check for images without a shell and curl.

ADDRESS is what --metrics said (default DIAPAUSE_METRICS), or the URL of any other
service: status 200 counts as ready.

  diapause ready 127.0.0.1:9419
  diapause ready http://127.0.0.1:8222/healthz`

func readyCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ready [ADDRESS]", Short: "Ask whether a process is ready, for health checks", Long: readyHelp, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address := os.Getenv("DIAPAUSE_METRICS")
			if len(args) > 0 {
				address = args[0]
			}
			at, err := readyURL(address)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), cmp.Or(c.timeout, readyWait))
			defer cancel()
			r, err := askReady(ctx, at)
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(r); err != nil || r.Ready {
					return err
				}
				return answered{schemas.FailedError("", "not ready")}
			}
			if !r.Ready {
				return notReady(at, r)
			}
			fmt.Fprintln(printed, "ready")
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readyWait bounds the wait for an answer; readyMost is how much of it is read.
const (
	readyWait = 5 * time.Second
	readyMost = 1 << 20
)

// readyURL is what to ask: /readyz of an address, or a URL as it is.
func readyURL(address string) (string, error) {
	if address == "" {
		return "", usagef("ready: name the address that a process serves --metrics at")
	}
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", usagef("ready %q: want host:port or http://host:port/path", address)
		}
		if u.Path == "" {
			u.Path = "/readyz"
		}
		return u.String(), nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usagef("ready %q: want host:port or http://host:port/path", address)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", nil
}

// askReady asks once. What another service than ours answers counts by its status alone.
func askReady(ctx context.Context, at string) (r metrics.Ready, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return r, usagef("ready: %v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, schemas.WithHint(fmt.Errorf("ask whether it is ready: %w", err), "is it started, with this address as --metrics?")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, readyMost))
	if err != nil {
		return r, fmt.Errorf("read the answer of %s: %w", at, err)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		r = metrics.Ready{}
	}
	if r.Parts == nil {
		r.Parts = []metrics.Part{}
	}
	r.Ready = resp.StatusCode == http.StatusOK
	return r, nil
}

// notReady names the parts that aren't.
func notReady(at string, r metrics.Ready) error {
	var why []string
	for _, p := range r.Parts {
		if !p.Ready {
			why = append(why, p.Name+": "+p.Why)
		}
	}
	if why == nil {
		why = []string{at + " says so"}
	}
	return schemas.FailedError("", "not ready: %s", strings.Join(why, "; "))
}
