package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// decode reads a file of YAML.
func decode[T any](t *testing.T, path string) (v T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// scraping is what the tests look at of Prometheus's configuration.
type scraping struct {
	RuleFiles []string `yaml:"rule_files"`
	Scrape    []struct {
		Job    string                       `yaml:"job_name"`
		Static []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
}

// Prometheus reads every part that has metrics, where it serves them, with the rules that its image has.
func TestScraped(t *testing.T) {
	var want, got []string
	for name, s := range readFleet(t).Services {
		if at := s.Environment["DIAPAUSE_METRICS"]; at != "" && s.Restart != "no" {
			want = append(want, name+strings.TrimPrefix(at, "0.0.0.0"))
		}
	}
	c := decode[scraping](t, "compose/prometheus.yml")
	for _, job := range c.Scrape {
		if job.Job != "diapause" { // as the rules call it
			t.Errorf("its job is %s", job.Job)
		}
		for _, s := range job.Static {
			got = append(got, s.Targets...)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("Prometheus reads %v, want %v", got, want)
	}
	copied := stages(t)["prometheus"]
	if !copied.has("/etc/prometheus/") || !slices.Equal(c.RuleFiles, []string{"/etc/prometheus/alerts.yml"}) {
		t.Errorf("its rules are %v", c.RuleFiles)
	}
	if cmd := copied.last("CMD"); !strings.Contains(cmd, `"--config.file=/etc/prometheus/prometheus.yml"`) {
		t.Errorf("it is started with %s", cmd)
	}
}

// Grafana finds Prometheus, and the dashboard, where its image and compose.yaml have them. Its image is of a registry,
// so that no test starts it.
func TestShown(t *testing.T) {
	services := readFleet(t).Services
	for _, name := range []string{"prometheus", "grafana"} {
		if p := services[name].Profiles; !slices.Equal(p, []string{"observe"}) {
			t.Errorf("%s is in the profiles %v", name, p)
		}
	}
	sources := decode[struct {
		Datasources []struct{ Type, URL string }
	}](t, "compose/grafana/datasources/prometheus.yml").Datasources
	_, port, _ := strings.Cut(services["prometheus"].Ports[0], "}:")
	if len(sources) != 1 || sources[0].Type != "prometheus" || sources[0].URL != "http://prometheus:"+port {
		t.Errorf("Grafana's data sources are %+v", sources)
	}
	providers := decode[struct {
		Providers []struct{ Options struct{ Path string } }
	}](t, "compose/grafana/dashboards/diapause.yml").Providers
	image := stages(t)["grafana"]
	if len(providers) != 1 || !image.has(providers[0].Options.Path+"/diapause.json") || !image.has("/etc/grafana/provisioning/") {
		t.Errorf("the dashboards of %+v aren't where the image has them", providers)
	}
}

// The tools whose files these are read them: compose with all profiles, and Prometheus.
func TestTools(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		t.Log("compose and promtool read the files with DIAPAUSE_LONG=1")
		return
	}
	args := []string{"compose", "--project-directory", filepath.Join(top, "compose")}
	for _, profile := range []string{"observe", "chaos", "tools"} {
		args = append(args, "--profile", profile)
	}
	cmd := exec.CommandContext(t.Context(), "docker", append(args, "config", "--services")...)
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+withPlugin(t))
	out, err := cmd.CombinedOutput()
	got := strings.Fields(string(out))
	var want []string
	for name := range readFleet(t).Services {
		want = append(want, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("compose reads the services %v, want %v: %v", got, want, err)
	}

	dir := t.TempDir()
	config := strings.ReplaceAll(read(t, "compose/prometheus.yml"), "/etc/prometheus", dir)
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yml": read(t, "services/metrics/alerts.yml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool := filepath.Join(prefix(), "prometheus", "promtool")
	if out, err := exec.CommandContext(t.Context(), tool, "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool (e2e/observe/install.sh puts it there): %v\n%s", err, out)
	}
}
