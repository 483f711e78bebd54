package ingress

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// BenchmarkRequest asks a session that runs, one request after another on one connection: directly, and through the proxy.
func BenchmarkRequest(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	f := newFleet(b, h)
	for _, way := range []struct{ name, address string }{{"direct", f.server}, {"proxy", serve(b, f.options())}} {
		b.Run(way.name, func(b *testing.B) {
			client := newBrowser(b, way.address).client
			b.ReportAllocs()
			for b.Loop() {
				r, err := client.Get("http://" + webHost + "/")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					b.Fatal(err)
				}
				r.Body.Close()
			}
		})
	}
}
