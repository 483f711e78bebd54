package observe

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

const metrics = "../../services/metrics/"

// dashboard is what is read of Grafana's (https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/).
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID         int
		Title      string
		Datasource struct{ Type, UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ RefID, Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(metrics + "dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Grafana shows each panel in a place of its own, with the data source that is chosen.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if v := d.Templating.List; len(v) != 1 || v[0].Name != "datasource" || v[0].Type != "datasource" || v[0].Query != "prometheus" {
		t.Errorf("the data source is chosen by %+v", v)
	}
	ids, places, titles := map[int]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		place := fmt.Sprintf("%d,%d", p.GridPos.X, p.GridPos.Y)
		if ids[p.ID] || places[place] || titles[p.Title] || p.ID == 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("panel %d, %q, at %s is there twice, or isn't on the page", p.ID, p.Title, place)
		}
		ids[p.ID], places[place], titles[p.Title] = true, true, true
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q asks %q %d queries", p.Title, p.Datasource.UID, len(p.Targets))
		}
		var refs []string
		for _, q := range p.Targets {
			if q.Expr == "" || q.LegendFormat == "" || slices.Contains(refs, q.RefID) {
				t.Errorf("panel %q has the query %+v", p.Title, q)
			}
			refs = append(refs, q.RefID)
		}
	}
	if len(d.Panels) < 10 {
		t.Errorf("there are %d panels", len(d.Panels))
	}
}

// silent are queries that an installation to which nothing happens answers with nothing.
var silent = regexp.MustCompile(`errors_total|failures_total|rejected_total|_problems|outcome="(failed|unknown)"|predict_linear|log_segments`)

// TestQueries asks each query of the dashboard, and has Prometheus read the rules.
func TestQueries(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		t.Log("the queries are asked with DIAPAUSE_LONG=1")
		return
	}
	s, dir := stack.Fresh(t)
	if err := s.Up("--docker", "none", "--metrics", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`metrics: http://(\S+)/metrics`).FindStringSubmatch(s.Log())
	if at == nil {
		t.Fatalf("no metrics are served:\n%s", s.Log())
	}
	p := serve(t, dir, at[1])
	must := func(args ...string) {
		t.Helper()
		if out, err := s.Must(args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	must("run", "--name", "s", "--idle", "never", "--", "sleep", "1000")
	for _, seen := range []string{`diapause_transitions_total{type="checkpointed"}`, `rate(diapause_transitions_total{type="checkpointed"}[1m])`} {
		for _, verb := range []string{"suspend", "ensure", "checkpoint"} { // twice: a rate is that of a counter that is there
			must(verb, "s")
		}
		p.until(seen)
	}
	for _, panel := range readDashboard(t).Panels {
		for _, q := range panel.Targets {
			expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "1m")
			n, err := p.ask(expr)
			if err != nil || n == 0 && !silent.MatchString(expr) {
				t.Errorf("panel %q: %s: %d series, %v", panel.Title, expr, n, err)
			}
		}
	}
	for _, rule := range rules(t) {
		if _, err := p.ask(rule); err != nil {
			t.Errorf("rule %s: %v", rule, err)
		}
	}
	if out, err := exec.Command(filepath.Join(installed(), "promtool"), "check", "rules", metrics+"alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func rules(t *testing.T) (exprs []string) {
	t.Helper()
	var all struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile(metrics + "alerts.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
		}
	}
	if len(exprs) < 10 {
		t.Errorf("there are %d rules", len(exprs))
	}
	return exprs
}

func installed() string {
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	return filepath.Join(prefix, "prometheus")
}

// prometheus is one that scrapes an installation.
type prometheus struct {
	t  *testing.T
	at string
}

func serve(t *testing.T, dir, target string) prometheus {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := prometheus{t, l.Addr().String()}
	l.Close()
	config := filepath.Join(dir, "prometheus.yml")
	rules, err := filepath.Abs(metrics + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nrule_files: [%q]\nscrape_configs:\n- job_name: diapause\n  static_configs: [{targets: [%q]}]\n", rules, target)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(installed(), "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "series"), "--web.listen-address="+p.at)
	if err := threadtest.Start(cmd); err != nil {
		t.Fatalf("start Prometheus: %v: run e2e/observe/install.sh", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p.until("up")
	return p
}

// until waits until a query is answered with something that isn't 0.
func (p prometheus) until(query string) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		n, err := p.ask(query + " > 0")
		if err == nil && n > 0 {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: %d series, %v", query, n, err)
		}
	}
}

// ask gives how many series a query has.
func (p prometheus) ask(query string) (int, error) {
	res, err := http.Get("http://" + p.at + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return len(answer.Data.Result), nil
}
