package run

import (
	"os"
	"path/filepath"
	"strings"
)

// hidden lists the files and directories that this process was given and sessions must not read:
// credentials, identities, the store, keys of HTTPS, the engine's socket. The drivers hide the data
// directory themselves.
func (h hostProcess) hidden() []string {
	all := append([]string(nil), h.Host.Hidden...)
	if h.NATS.Creds != "" {
		all = append(all, h.NATS.Creds)
	}
	all = append(all, h.Keys.IdentityFiles...)
	all = append(all, h.Images.hidden()...)
	all = append(all, ofRegistries()...)
	all = append(all, h.Web.TLS.hidden()...)
	for _, address := range []string{h.Host.Docker, os.Getenv("DOCKER_HOST"), os.Getenv("CONTAINER_HOST")} {
		if socket, ok := strings.CutPrefix(address, "unix://"); ok && filepath.IsAbs(socket) {
			all = append(all, socket)
		}
	}
	return all
}

// hidden lists where the key of HTTPS is. Renewals may have a link lead to the next file beside this one, or to one of
// the next directory beside its directory, below the link's own, as in volumes of Kubernetes.
func (c TLSConfig) hidden() (all []string) {
	if c.SelfDir != "" {
		all = append(all, c.SelfDir)
	}
	if c.KeyFile == "" {
		return all
	}
	all = append(all, c.KeyFile)
	if file, err := filepath.EvalSymlinks(c.KeyFile); err == nil && file != filepath.Clean(c.KeyFile) {
		all = append(all, filepath.Dir(file))
		if dir, err := filepath.EvalSymlinks(filepath.Dir(c.KeyFile)); err == nil && strings.HasPrefix(filepath.Dir(file), dir+"/") {
			all = append(all, filepath.Dir(c.KeyFile))
		}
	}
	return all
}

// ofRegistries lists where credentials for registries are, which `--root oci:` takes: those of Docker and Podman.
func ofRegistries() (all []string) {
	in := func(dir, name string) {
		if dir != "" {
			all = append(all, filepath.Join(dir, name))
		}
	}
	own, err := os.UserHomeDir()
	if err == nil {
		in(own, ".docker/config.json")
	}
	in(os.Getenv("DOCKER_CONFIG"), "config.json")
	in(os.Getenv("REGISTRY_AUTH_FILE"), "")
	in(os.Getenv("XDG_RUNTIME_DIR"), podmanLogins)
	in(os.Getenv("XDG_CONFIG_HOME"), podmanLogins)
	if err == nil {
		in(own, filepath.Join(".config", podmanLogins))
	}
	return all
}

// podmanLogins is Podman's file of credentials, below one of two directories.
const podmanLogins = "containers/auth.json"

// hidden lists where a store's objects or its credentials are.
func (c Images) hidden() (all []string) {
	if dir, ok := strings.CutPrefix(c.Store, "dir://"); ok {
		return []string{dir}
	}
	if !strings.HasPrefix(c.Store, "s3:") {
		return nil
	}
	for _, name := range credentialFiles {
		if file := os.Getenv(name); file != "" {
			all = append(all, file)
		}
	}
	if own, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(own, ".aws")) // tokens of a single sign-on are below it, too
	}
	return all
}

// credentialFiles are variables that name files from which credentials of a bucket are taken.
var credentialFiles = []string{
	"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
}
