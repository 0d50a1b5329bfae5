package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
)

const (
	maxConfig = 1 << 20 // bytes of a config.json
	hub       = "docker.io"
	hubKey    = "https://index.docker.io/v1/" // which stands for it in a config.json
)

// login is what an engine tells the registry, in its form; empty: nothing.
func (p *Puller) login(o order) (string, error) {
	switch {
	case o.auth.Config != "":
		a, err := p.fromConfig(o.auth.Config, reference.Domain(o.source))
		if err != nil {
			return "", err
		}
		return registry.EncodeAuthConfig(a)
	case o.auth.Username != "":
		return registry.EncodeAuthConfig(registry.AuthConfig{Username: o.auth.Username, Password: o.auth.Password, ServerAddress: reference.Domain(o.source)})
	}
	return "", nil
}

// fromConfig gets the password for a registry from a config.json, if the host's owner lets tasks use the file: with its passwords a task
// fetches what its author may not see.
func (p *Puller) fromConfig(path, domain string) (registry.AuthConfig, error) {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) || !slices.Contains(p.Configs, path) {
		return registry.AuthConfig{}, fmt.Errorf("this host's owner lets no task use %.200q: name a file that they allow, or give Auth another form", path)
	}
	f, err := os.Open(path) //nolint:gosec // the owner's own
	if err != nil {
		return registry.AuthConfig{}, fmt.Errorf("read the passwords for registries: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return registry.AuthConfig{}, fmt.Errorf("read the passwords for registries: %w", err)
	}
	a, err := loginIn(raw, domain)
	if err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// loginIn finds a registry in a config.json. Its programs that keep passwords (credsStore) are not run.
func loginIn(raw []byte, domain string) (registry.AuthConfig, error) {
	var config struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if len(raw) > maxConfig {
		return registry.AuthConfig{}, fmt.Errorf("it has more than %d bytes", maxConfig)
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return registry.AuthConfig{}, errors.New("it is no config.json of an engine: make one with docker login")
	}
	for key, a := range config.Auths {
		if key != domain && hostOf(key) != domain && (domain != hub || key != hubKey) {
			continue
		}
		if a.IdentityToken != "" {
			return registry.AuthConfig{IdentityToken: a.IdentityToken, ServerAddress: domain}, nil
		}
		plain, err := base64.StdEncoding.DecodeString(a.Auth)
		username, password, both := strings.Cut(string(plain), ":")
		if err != nil || !both {
			return registry.AuthConfig{}, fmt.Errorf("it has no password for %s itself: programs that keep passwords are not run: docker login without credsStore writes it", domain)
		}
		return registry.AuthConfig{Username: username, Password: password, ServerAddress: domain}, nil
	}
	return registry.AuthConfig{}, fmt.Errorf("it has no password for %s: docker login %s adds one", domain, domain)
}

// hostOf is the host of a key that is a URL.
func hostOf(key string) string {
	_, rest, _ := strings.Cut(key, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}
