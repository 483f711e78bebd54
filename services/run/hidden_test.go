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
		{hostProcess{}, []string{engine}},
		{hostProcess{UpConfig: UpConfig{NATS: NATS{Creds: "/etc/creds"}, Keys: Keys{IdentityFiles: []string{"a", "b"}}}}, []string{"/etc/creds", "a", "b", engine}},
		{hostProcess{UpConfig: UpConfig{Images: Images{Store: "dir:///srv/images"}, Host: Host{Docker: "none"}}}, []string{"/srv/images", engine}},
		{hostProcess{UpConfig: UpConfig{Images: Images{Store: "s3://bucket"}, Host: Host{Docker: "unix:///srv/docker.sock", Hidden: []string{"/root/.ssh"}}}},
			slices.Concat([]string{"/root/.ssh"}, bucket, []string{"/srv/docker.sock", engine})},
		{hostProcess{UpConfig: UpConfig{Web: WebConfig{TLS: TLSConfig{SelfDir: "/srv/https"}}}}, []string{"/srv/https", engine}},
		{hostProcess{UpConfig: UpConfig{Web: WebConfig{TLS: TLSConfig{CertFile: "/srv/cert.pem", KeyFile: key}}}}, []string{key, engine}},
		{hostProcess{UpConfig: UpConfig{Web: WebConfig{TLS: TLSConfig{CertFile: "/srv/cert.pem", KeyFile: link}}}}, []string{link, filepath.Dir(key), engine}},
	} {
		if got := c.h.hidden(); !slices.Equal(got, c.want) {
			t.Errorf("hidden are %q, want %q", got, c.want)
		}
	}
}
