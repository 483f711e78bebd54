package gateway

import (
	"fmt"
	"net/http"
)

// shortHeaders refuses a request whose header is too large.
func shortHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headerSize(r) <= maxHeader {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close") // nothing is read of its body
		refusal(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the header has more than %d bytes", maxHeader), "").write(w)
	})
}

// headerSize is how long the header of a request was on the wire, but for what HTTP itself needs.
func headerSize(r *http.Request) int {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(": ") + len(v) + len("\r\n")
		}
	}
	return size
}
