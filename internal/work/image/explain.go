package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// remedies are what to do about what engines say of registries. REGISTRY stands for its name.
var remedies = []struct {
	pattern *regexp.Regexp
	help    string
}{
	{regexp.MustCompile(`(?i)manifest unknown|manifest for \S+ not found|name unknown|repository \S+ not found|: not found$`), "registry REGISTRY has no such image: correct OrgAndReg, RepoName or Tag"},
	{regexp.MustCompile(`(?i)toomanyrequests|too many requests`), "wait, or give the task Auth for registry REGISTRY"},
	{regexp.MustCompile(`(?i)x509:`), "let the engine trust registry REGISTRY: put its authority into /etc/docker/certs.d/REGISTRY/ca.crt"},
	{regexp.MustCompile(`(?i)server gave HTTP response to HTTPS client`), "registry REGISTRY speaks no TLS: give it a certificate, or list it under insecure-registries in the engine's daemon.json"},
	{regexp.MustCompile(`(?i)lookup \S+.*(no such host|server misbehaving)|connection refused|i/o timeout|no route to host|network is unreachable|Client\.Timeout|TLS handshake timeout`), "see that this host reaches registry REGISTRY"},
}

// refused are what engines say of passwords; of an image that is not there they often say no more.
var refused = regexp.MustCompile(`(?i)unauthorized|authentication required|no basic auth credentials|access .*denied|incorrect username or password|forbidden`)

// unfetched says why what was done about an image did not succeed, and what to do about it.
func (o order) unfetched(what string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	explained := engine.Explain(fmt.Errorf("%s %s: %w", what, reference.FamiliarString(o.source), err))
	var known *engine.Error
	help := o.help(err.Error())
	if errors.Is(err, io.ErrUnexpectedEOF) { // its answer broke off: what a registry's connection does, engines tell in a message
		help = "the container engine has ended meanwhile: see that it runs, and assign the task again"
	}
	if errdefs.IsUnavailable(err) && errors.As(explained, &known) { // an engine answered, for a registry: it is no engine that is away
		if help == "" {
			help = fmt.Sprintf("see that registry %s works, and assign the task again", reference.Domain(o.source))
		}
		return &engine.Error{Err: errors.New(known.Error()), Help: help}
	}
	if help != "" && errors.As(explained, &known) {
		return &engine.Error{Err: known.Err, Help: help}
	}
	return explained
}

// help is what to do about what an engine said; empty: the rules that hold for all of its errors say it.
func (o order) help(said string) string {
	domain := reference.Domain(o.source)
	_, digested := o.source.(reference.Digested)
	switch {
	case digested && remedies[0].pattern.MatchString(said):
		return fmt.Sprintf("registry %s has no image of this digest, or has it no longer: correct the task's Tag, or assign the task anew", domain)
	case refused.MatchString(said) && o.auth == (taskfile.Auth{}):
		return fmt.Sprintf("give the task Auth for registry %s, or correct the image's name", domain)
	case refused.MatchString(said):
		return fmt.Sprintf("registry %s does not let these credentials fetch it: correct Auth, or the image's name", domain)
	}
	for _, r := range remedies {
		if r.pattern.MatchString(said) {
			return strings.ReplaceAll(r.help, "REGISTRY", domain)
		}
	}
	return ""
}
