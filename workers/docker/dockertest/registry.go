package dockertest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Registry serves busybox as a registry does, and gives what it is called there.
func Registry(t testing.TB) string {
	t.Helper()
	files := busybox(t)
	var layer bytes.Buffer
	w := gzip.NewWriter(&layer)
	if _, err := w.Write(files); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	config := encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(files)}},
	})
	const kind, vendor = "application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker."
	manifest := encode(t, map[string]any{
		"schemaVersion": 2, "mediaType": kind,
		"config": map[string]any{"mediaType": vendor + "container.image.v1+json", "size": len(config), "digest": digest(config)},
		"layers": []any{map[string]any{"mediaType": vendor + "image.rootfs.diff.tar.gzip", "size": layer.Len(), "digest": digest(layer.Bytes())}},
	})
	has := map[string][]byte{"manifests/1": manifest}
	has["manifests/"+digest(manifest)] = manifest
	has["blobs/"+digest(config)], has["blobs/"+digest(layer.Bytes())] = config, layer.Bytes()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest := strings.TrimPrefix(r.URL.Path, "/v2/")
		b, ok := has[strings.TrimPrefix(rest, "busybox/")]
		if !ok && rest != "" {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(rest, "busybox/manifests/") {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Docker-Content-Digest", digest(b))
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/busybox:1"
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
