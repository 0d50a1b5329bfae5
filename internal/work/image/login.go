package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/start"
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

// fromConfig gets the password for a registry from a config.json in the directory that the host's owner gave to SWOP.
func (p *Puller) fromConfig(name, domain string) (registry.AuthConfig, error) {
	path, err := p.inUsrDir(name)
	if err != nil {
		return registry.AuthConfig{}, err
	}
	raw, err := readIn(p.UsrDir, path)
	if err != nil {
		return registry.AuthConfig{}, fmt.Errorf("read the passwords for registries in --usr-dir, as the task's Auth says: %w: put a config.json there, or correct Auth", err)
	}
	a, err := loginIn(raw, domain)
	if err != nil {
		return a, fmt.Errorf("%.200s: %w", name, err)
	}
	return a, nil
}

// inUsrDir is the path of a file from the user's directory, which a task may name by its path from there, by that of this process, or by the
// one that it has in every SWOP's container. Hidden files are no task's: the directory may be somebody's home, with passwords of their own.
func (p *Puller) inUsrDir(name string) (string, error) {
	path := filepath.Clean(name)
	for _, dir := range []string{p.UsrDir, start.SWOPUserDir} {
		own, err := filepath.Abs(dir)
		if err != nil || !filepath.IsAbs(path) {
			continue
		}
		if rel, err := filepath.Rel(own, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
	}
	switch {
	case !filepath.IsLocal(path) || p.UsrDir == "":
		return "", fmt.Errorf("the task's Auth names %.200q, which is not in this host's --usr-dir: name a config.json in it, by its path from there", name)
	case strings.HasPrefix(path, ".") || strings.Contains(path, "/."):
		return "", fmt.Errorf("the task's Auth names %.200q, a hidden file, which no task may use: name a config.json in --usr-dir that is not hidden", name)
	}
	return path, nil
}

// readIn reads a file in a directory, and none outside to which a link leads.
func readIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would have it wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no file", name))
	}
	return io.ReadAll(io.LimitReader(f, maxConfig+1))
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
