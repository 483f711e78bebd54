package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHidden(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/etc/bucket")
	t.Setenv("AWS_CONFIG_FILE", "")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/token")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "")
	t.Setenv("DOCKER_HOST", "unix:///home/me/.docker/run/docker.sock")
	t.Setenv("CONTAINER_HOST", "tcp://127.0.0.1:1")
	for _, name := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	logins := []string{"/home/me/.docker/config.json", "/home/me/.config/containers/auth.json"}
	engine := "/home/me/.docker/run/docker.sock"
	bucket := []string{"/etc/bucket", "/var/token", "/home/me/.aws"}
	dir := t.TempDir()
	for _, name := range []string{"archive", "live"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key, link := filepath.Join(dir, "archive", "key1.pem"), filepath.Join(dir, "live", "key.pem")
	if err := errors.Join(os.WriteFile(key, nil, 0o600), os.Symlink("../archive/key1.pem", link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		h    hostProcess
		want []string
	}{
		{hostProcess{}, slices.Concat(logins, []string{engine})},
		{hostProcess{UpConfig: UpConfig{NATS: NATS{Creds: "/etc/creds"}, Keys: Keys{IdentityFiles: []string{"a", "b"}}}}, slices.Concat([]string{"/etc/creds", "a", "b"}, logins, []string{engine})},
		{hostProcess{UpConfig: UpConfig{Images: Images{Store: "dir:///srv/images"}, Host: Host{Docker: "none"}}}, slices.Concat([]string{"/srv/images"}, logins, []string{engine})},
		{hostProcess{UpConfig: UpConfig{Images: Images{Store: "s3://bucket"}, Host: Host{Docker: "unix:///srv/docker.sock", Hidden: []string{"/root/.ssh"}}}},
			slices.Concat([]string{"/root/.ssh"}, bucket, logins, []string{"/srv/docker.sock", engine})},
		{hostProcess{UpConfig: UpConfig{Web: WebConfig{TLS: TLSConfig{SelfDir: "/srv/https"}}}}, slices.Concat(logins, []string{"/srv/https", engine})},
		{hostProcess{UpConfig: UpConfig{Web: WebConfig{TLS: TLSConfig{CertFile: "/srv/cert.pem", KeyFile: key}}}}, slices.Concat(logins, []string{key, engine})},
		{hostProcess{UpConfig: UpConfig{Web: WebConfig{TLS: TLSConfig{CertFile: "/srv/cert.pem", KeyFile: link}}}}, slices.Concat(logins, []string{link, filepath.Dir(key), engine})},
	} {
		if got := c.h.hidden(); !slices.Equal(got, c.want) {
			t.Errorf("hidden are %q, want %q", got, c.want)
		}
	}
}

// All places are hidden from which credentials for registries may come.
func TestHiddenOfRegistries(t *testing.T) {
	for name, value := range map[string]string{
		"HOME": "/home/me", "DOCKER_CONFIG": "/etc/docker-login", "REGISTRY_AUTH_FILE": "/etc/auth.json", "XDG_RUNTIME_DIR": "/run/user/0", "XDG_CONFIG_HOME": "/etc/xdg",
	} {
		t.Setenv(name, value)
	}
	want := []string{
		"/home/me/.docker/config.json", "/etc/docker-login/config.json", "/etc/auth.json", "/run/user/0/containers/auth.json",
		"/etc/xdg/containers/auth.json", "/home/me/.config/containers/auth.json",
	}
	if got := ofRegistries(); !slices.Equal(got, want) {
		t.Errorf("hidden are %q, want %q", got, want)
	}
}
