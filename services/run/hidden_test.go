package run

import (
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
	for _, c := range []struct {
		h    hostProcess
		want []string
	}{
		{hostProcess{}, []string{engine}},
		{hostProcess{UpConfig: UpConfig{NATS: NATS{Creds: "/etc/creds"}, Keys: Keys{IdentityFiles: []string{"a", "b"}}}}, []string{"/etc/creds", "a", "b", engine}},
		{hostProcess{UpConfig: UpConfig{Images: Images{Store: "dir:///srv/images"}, Host: Host{Docker: "none"}}}, []string{"/srv/images", engine}},
		{hostProcess{UpConfig: UpConfig{Images: Images{Store: "s3://bucket"}, Host: Host{Docker: "unix:///srv/docker.sock", Hidden: []string{"/root/.ssh"}}}},
			slices.Concat([]string{"/root/.ssh"}, bucket, []string{"/srv/docker.sock", engine})},
	} {
		if got := c.h.hidden(); !slices.Equal(got, c.want) {
			t.Errorf("hidden are %q, want %q", got, c.want)
		}
	}
}
