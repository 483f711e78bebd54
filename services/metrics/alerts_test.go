package metrics_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every metric that the rules and the documents name is one that there is.
func TestNamesInDocuments(t *testing.T) {
	there := map[string]bool{}
	for _, line := range exposed(t, used()) {
		name, _, _ := strings.Cut(line, "{")
		there[name] = true
	}
	for _, name := range []string{ // of parts that this test has none of
		"diapause_sessions_breaker_open", "diapause_sessions_archived", "diapause_sessions_queued", "diapause_disk_free_bytes", "diapause_disk_size_bytes", "diapause_stored_bytes", "diapause_host_working_sessions", "diapause_lease_remaining_seconds",
		"diapause_http_requests_total", "diapause_http_streams", "diapause_scheduler_active", "diapause_scheduler_behind_seconds",
		"diapause_store_operation_duration_seconds", "diapause_store_retries_total", "diapause_store_bytes_total",
	} {
		there[name] = true
	}
	names := regexp.MustCompile(`\bdiapause_[a-z_]*[a-z]`)
	for _, file := range []string{"alerts.yml", "dashboard.json", "../OPERATIONS.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, name := range names.FindAllString(string(text), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			found++
			if !there[name] && name != "diapause_housekeeping" {
				t.Errorf("%s names %s, which there isn't", file, name)
			}
		}
		if found < 10 {
			t.Errorf("%s names %d metrics", file, found)
		}
	}
}
