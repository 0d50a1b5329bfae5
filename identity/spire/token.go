package spire

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	tokenLimit = 30 * time.Second // for one way to get a token
	tokenPause = time.Second      // between tries
	tokenWait  = time.Minute      // in which a server that was started together with its nodes ought to be there
	maxOutput  = 1 << 20          // bytes that are read of a program's answer
)

// TokenSource says where an agent gets its join token from: a file in which somebody left one, or else the server's API
// socket on this machine, the server's container here, or either of them on the server's machine over ssh without a
// password.
type TokenSource struct {
	File string // a Join as JSON, which the maker of this container has left; "": none. With it nothing else is tried
	// Invitation brings the token; nil: none does. With it nothing else is tried, and it is tried once.
	Invitation *invitation.Invitation
	Socket     string // the server's API socket on this machine; "": none
	Docker     string // name of the server's container; "": the server runs without one
	// FindDocker looks for the server's container on this machine if Docker is "", at every try; "" if there is none yet. Nil:
	// nobody looks.
	FindDocker    func(context.Context) (string, error)
	Exec          Exec   // runs a program in a container on this machine; nil: there is no way to
	SSHUser       string // user on the server's machine; "": ssh's own choice
	SSHPort       int    // 0: ssh's own choice
	ServerAddress string // the server's machine; "": no ssh
	TrustDomain   string // that of a server whose certificates do not name it; "": they must

	// Wait is how long Join goes on trying: a server that is started together with its nodes needs a moment until it can make
	// tokens. 0: every way is tried once.
	Wait time.Duration
	Log  *slog.Logger // is told what Join waits for; nil: nobody is
}

// Exec runs a program in a running container and returns what it printed to its standard output. A program that the
// container does not have is ErrNoProgram. It must bound what it reads.
type Exec func(ctx context.Context, container string, argv []string) ([]byte, error)

// ErrNoProgram is returned by an Exec if there is no such program in the container.
var ErrNoProgram = errors.New("there is no such program in the container")

// Join is all that an agent needs to join a trust domain without trusting anybody blindly.
type Join struct {
	Token       string `json:"token"`
	TrustDomain string `json:"trust_domain"` // its name
	Bundle      []byte `json:"bundle"`       // its certificates, PEM
	Agent       string `json:"agent"`        // path of the agent's alias, by which entries name it as their parent
	Origin      string `json:"-"`            // where it comes from, in words
}

// Join asks for a token for the agent of a node, in the order of TokenSource's comment, again and again for as long as Wait
// says. A node that has no registration entry of its own, or no name, gets one for the entry that all nodes of the role
// share. The error names every way that was tried and why it failed.
func (t *TokenSource) Join(ctx context.Context, role identity.Role, name string) (Join, error) {
	if t.Invitation != nil {
		return invited(t.Invitation)
	}
	ways := t.ways(role, name)
	remedy := fmt.Sprintf("make a token on the server's machine with `swarmd spire-token %s` and give it by -joinToken", node(role, name))
	if len(ways) == 0 {
		return Join{}, fmt.Errorf("generate join token: there is nobody to ask: give -serverAddress of a machine that ssh reaches without a password, --spire-docker-name, or %s", remedy)
	}
	limit := time.Now().Add(t.Wait)
	for said := ""; ; {
		join, tried := try(ctx, ways)
		if tried == nil {
			return join, nil
		}
		if ctx.Err() != nil {
			return Join{}, ctx.Err()
		}
		if time.Now().Add(tokenPause).After(limit) {
			return Join{}, fmt.Errorf("generate join token: every way failed: mend one of them, or %s; tried:\n%s", remedy, strings.Join(tried, "\n"))
		}
		if why := strings.TrimSpace(strings.Join(tried, ";")); why != said && t.Log != nil {
			said = why
			t.Log.Warn("waiting for a SPIRE server that makes a join token", "for", time.Until(limit).Round(time.Second).String(), "why", why)
		}
		select {
		case <-ctx.Done():
			return Join{}, ctx.Err()
		case <-time.After(tokenPause):
		}
	}
}

// invited takes the token of an invitation.
func invited(i *invitation.Invitation) (Join, error) {
	if !time.Now().Before(i.Expires) {
		return Join{}, fmt.Errorf("the invitation of %s expired at %s: %s", i.For(), i.Expires.UTC().Format(time.RFC3339), askAgain(i.For()))
	}
	first := i.Nodes[0]
	return Join{
		Token: i.Token, TrustDomain: i.TrustDomain, Bundle: i.BundlePEM(), Agent: AgentPath(first.Role, first.Name), Origin: "the invitation of " + i.For(),
	}, nil
}

// try goes all ways once; it returns why each of them failed, or nothing if one did not.
func try(ctx context.Context, ways []way) (Join, []string) {
	var tried []string
	for _, way := range ways {
		limited, cancel := context.WithTimeout(ctx, tokenLimit)
		join, err := way.get(limited)
		cancel()
		if err == nil {
			join.Origin = way.name
			return join, nil
		}
		tried = append(tried, fmt.Sprintf("  %s: %v", way.name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return Join{}, tried
}

// node is a node as people write it: ROLE or ROLE/NAME.
func node(role identity.Role, name string) string {
	if name == "" {
		return string(role)
	}
	return string(role) + "/" + name
}

type way struct {
	name string
	get  func(context.Context) (Join, error)
}

func (t *TokenSource) ways(role identity.Role, name string) []way {
	if t.File != "" {
		return []way{{"file " + t.File, func(context.Context) (Join, error) { return fromFile(t.File) }}}
	}
	var ways []way
	if t.Socket != "" {
		ways = append(ways, way{"API socket " + t.Socket, func(ctx context.Context) (Join, error) { return fromSocket(ctx, t.Socket, role, name) }})
	}
	if t.Docker != "" {
		ways = append(ways, way{"docker exec " + t.Docker, func(ctx context.Context) (Join, error) {
			if t.Exec == nil {
				return Join{}, errors.New("this program reaches no container engine")
			}
			return t.fromDocker(ctx, t.Exec, role, name)
		}})
	}
	if t.Docker == "" && t.FindDocker != nil {
		ways = append(ways, way{"container of a SPIRE server on this host", func(ctx context.Context) (Join, error) {
			found := *t
			var err error
			if found.Docker, err = t.FindDocker(ctx); err != nil {
				return Join{}, err
			}
			if found.Docker == "" {
				return Join{}, errors.New("none runs")
			}
			if found.Exec == nil {
				return Join{}, errors.New("this program reaches no container engine")
			}
			join, err := found.fromDocker(ctx, found.Exec, role, name)
			if err != nil {
				err = fmt.Errorf("docker exec %s: %w", found.Docker, err)
			}
			return join, err
		}})
	}
	if t.ServerAddress != "" {
		ways = append(ways, way{"ssh " + t.destination(), func(ctx context.Context) (Join, error) {
			if strings.HasPrefix(t.ServerAddress, "-") {
				return Join{}, fmt.Errorf("%q is no host", t.ServerAddress)
			}
			ssh := t.ssh()
			if t.Docker != "" {
				return t.fromDocker(ctx, remoteExec(ssh), role, name)
			}
			return fromSwarmd(func(argv ...string) ([]byte, error) { return output(ctx, append(ssh, argv...)) }, node(role, name))
		}})
	}
	return ways
}

// remoteExec is an Exec through ssh and the docker program there.
func remoteExec(ssh []string) Exec {
	return func(ctx context.Context, container string, argv []string) ([]byte, error) {
		out, err := output(ctx, slices.Concat(ssh, []string{"docker", "exec", container}, argv))
		// As a shell has it: found but not run, and not found; docker says either.
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && (exit.ExitCode() == 126 || exit.ExitCode() == 127) {
			err = fmt.Errorf("%w: %w", ErrNoProgram, err)
		}
		return out, err
	}
}

// fromFile reads what the maker of this container has left.
func fromFile(path string) (Join, error) {
	raw, err := readBounded(path)
	if err != nil {
		return Join{}, err
	}
	return parseJoin(raw, path)
}

func fromSocket(ctx context.Context, socket string, role identity.Role, name string) (Join, error) {
	if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
		return Join{}, errors.New("no such socket: no SPIRE server runs here")
	}
	s, err := OpenServer(socket)
	if err != nil {
		return Join{}, err
	}
	defer s.Close()
	var j Join
	if j.Bundle, j.TrustDomain, err = s.Bundle(ctx); err != nil {
		return Join{}, err
	}
	if j.Agent, _, err = s.AgentOf(ctx, role, name); err != nil {
		return Join{}, err
	}
	j.Token, err = s.JoinToken(ctx, []string{j.Agent}, DefaultTokenTTL)
	return j, err
}

// destination is the ssh address, as [user@]host[:port], for people.
func (t *TokenSource) destination() string {
	text := t.ServerAddress
	if t.SSHPort != 0 {
		text = net.JoinHostPort(text, strconv.Itoa(t.SSHPort))
	}
	if t.SSHUser != "" {
		text = t.SSHUser + "@" + text
	}
	return text
}

func (t *TokenSource) ssh() []string {
	// Nobody is there to type a password or to judge a host key.
	args := []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}
	if t.SSHPort != 0 {
		args = append(args, "-p", strconv.Itoa(t.SSHPort))
	}
	if t.SSHUser != "" {
		args = append(args, "-l", t.SSHUser)
	}
	return append(args, "--", t.ServerAddress)
}

var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]*$`)

// fromDocker asks swarmd in the server's container, or, where there is none, the server's own program, as the original's
// scripts do.
func (t *TokenSource) fromDocker(ctx context.Context, run Exec, role identity.Role, name string) (Join, error) {
	// The other side of ssh is a shell.
	if !word.MatchString(t.Docker) {
		return Join{}, fmt.Errorf("--spire-docker-name %q is no name of a container", t.Docker)
	}
	join, err := fromSwarmd(func(argv ...string) ([]byte, error) { return run(ctx, t.Docker, argv) }, node(role, name))
	if !errors.Is(err, ErrNoProgram) {
		return join, err
	}
	server := func(argv ...string) ([]byte, error) {
		return run(ctx, t.Docker, append([]string{"spire-server"}, argv...))
	}
	bundle, err := server("bundle", "show")
	if err != nil {
		return Join{}, err
	}
	j := Join{Bundle: bundle}
	if j.TrustDomain, err = bundleDomain(bundle); err != nil {
		return Join{}, err
	}
	if j.TrustDomain == "" {
		j.TrustDomain = t.TrustDomain
	}
	if _, err := spiffeid.TrustDomainFromString(j.TrustDomain); err != nil {
		return Join{}, fmt.Errorf("no certificate of the trust bundle names its trust domain: give -trustDomain (%w)", err)
	}
	j.Agent = AgentPath(role, name)
	shown, err := server("entry", "show", "-parentID", "spiffe://"+j.TrustDomain+j.Agent)
	if err != nil {
		return Join{}, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(shown), []byte("Found 0 ")) {
		j.Agent = AgentPath(role, "")
	}
	text, err := server("token", "generate", "-spiffeID", "spiffe://"+j.TrustDomain+j.Agent)
	if err != nil {
		return Join{}, err
	}
	for l := range strings.Lines(string(text)) {
		if token, ok := strings.CutPrefix(strings.TrimSpace(l), "Token:"); ok {
			j.Token = strings.TrimSpace(token)
		}
	}
	if !word.MatchString(j.Token) {
		return Join{}, errors.New("`spire-server token generate` printed no token")
	}
	return j, nil
}

// fromSwarmd asks swarmd on the server's machine.
func fromSwarmd(run func(argv ...string) ([]byte, error), node string) (Join, error) {
	raw, err := run("swarmd", "spire-token", "--json", "--shared", node)
	if err != nil && strings.Contains(err.Error(), "unknown option --shared") { // one that shares without being asked
		raw, err = run("swarmd", "spire-token", "--json", node)
	}
	if err != nil {
		return Join{}, err
	}
	return parseJoin(raw, "`swarmd spire-token --json`")
}

// parseJoin reads a Join that from gave.
func parseJoin(raw []byte, from string) (Join, error) {
	var j Join
	if err := json.Unmarshal(raw, &j); err != nil {
		return Join{}, fmt.Errorf("%s gave no JSON", from)
	}
	if !word.MatchString(j.Token) {
		return Join{}, fmt.Errorf("%s gave no token", from)
	}
	if _, err := spiffeid.TrustDomainFromString(j.TrustDomain); err != nil {
		return Join{}, fmt.Errorf("%s: %w", from, err)
	}
	if _, err := bundleDomain(j.Bundle); err != nil {
		return Join{}, err
	}
	return j, nil
}

// output runs a program and returns what it printed. The error carries the last thing that it complained of.
func output(ctx context.Context, argv []string) ([]byte, error) {
	for _, a := range argv[1:] {
		if strings.ContainsAny(a, " \t\n\"'`$;&|<>()\\*?[]{}~#!") {
			return nil, fmt.Errorf("refuse to pass %q to a shell", a)
		}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	stdout, stderr := &limited{max: maxOutput}, &limited{max: maxOutput}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	shown := argv[0]
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("there is no program %q on PATH", shown)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s gave no answer within %v", shown, tokenLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, complaint(stderr.b.String(), stdout.b.String()))
	}
	return stdout.b.Bytes(), nil
}

// complaint is the last line of the first text that has one.
func complaint(texts ...string) string {
	for _, said := range texts {
		lines := strings.Split(strings.TrimSpace(said), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return ": " + text.Clip(quoted(last), 300)
		}
	}
	return ""
}

// limited keeps the first bytes that are written to it.
type limited struct {
	b   bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.max-l.b.Len())])
	return len(p), nil
}

// bundleDomain checks that there are certificates in a PEM bundle and returns the trust domain that they name, "" if none
// does: roots from elsewhere need not.
func bundleDomain(bundle []byte) (string, error) {
	var domain string
	found := false
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", fmt.Errorf("read trust bundle: %w", err)
		}
		found = true
		for _, uri := range cert.URIs {
			if td, err := spiffeid.TrustDomainFromURI(uri); err == nil {
				domain = td.Name()
			}
		}
	}
	if !found {
		return "", errors.New("read trust bundle: there is no certificate in it")
	}
	return domain, nil
}
