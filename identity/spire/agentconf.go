package spire

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity/spire/attestor"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	defaultPort = 8081
)

// agentFile is what we need to know of a user's configuration of the agent. Everything else is the agent's business.
type agentFile struct {
	Agent struct {
		AdminSocket    string `hcl:"admin_socket_path"`
		DataDir        string `hcl:"data_dir"`
		LogFile        string `hcl:"log_file"`
		ServerAddress  string `hcl:"server_address"`
		ServerPort     int    `hcl:"server_port"`
		TrustBundle    string `hcl:"trust_bundle_path"`
		TrustBundleURL string `hcl:"trust_bundle_url"`
		TrustDomain    string `hcl:"trust_domain"`
		Insecure       bool   `hcl:"insecure_bootstrap"`
	} `hcl:"agent"`
	Plugins struct {
		NodeAttestor     map[string]any `hcl:"NodeAttestor"`
		KeyManager       map[string]any `hcl:"KeyManager"`
		WorkloadAttestor map[string]any `hcl:"WorkloadAttestor"`
		SVIDStore        map[string]any `hcl:"SVIDStore"`
	} `hcl:"plugins"`
}

// Server returns the address of the SPIRE server that the options or the configuration file name, "" if neither does.
func (cfg *AgentConfig) Server() (string, error) {
	if cfg.ServerAddress != "" || cfg.ConfigFile == "" {
		return cfg.ServerAddress, nil
	}
	f, err := readAgentFile(cfg.ConfigFile, switched(cfg.Args, "expandEnv"))
	return f.Agent.ServerAddress, err
}

func readAgentFile(path string, expandEnv bool) (agentFile, error) {
	var f agentFile
	raw, err := readBounded(path)
	if err != nil {
		return f, fmt.Errorf("-config: %w", err)
	}
	text := string(raw)
	if expandEnv {
		text = expand(text)
	}
	if f, err = parseAgentFile(text); err != nil {
		return f, fmt.Errorf("-config %s: %w", path, err)
	}
	return f, nil
}

func parseAgentFile(text string) (f agentFile, err error) {
	err = decode(&f, text)
	return f, err
}

// savedData is what an agent keeps of its identity: with it a restart needs no token.
type savedData struct {
	svid   *x509.Certificate // nil: none
	bundle []*x509.Certificate
}

// usable reports whether the agent goes on with what it has kept.
func (k savedData) usable(now time.Time) bool {
	return k.svid != nil && now.Add(time.Second).Before(k.svid.NotAfter)
}

// readSaved reads the agent's data. Data that can't be read counts as none: the agent says what is wrong with it.
func readSaved(dir string) savedData {
	raw, err := readBounded(filepath.Join(dir, "agent-data.json"))
	if err != nil {
		return savedData{}
	}
	return parseSaved(raw)
}

func parseSaved(raw []byte) savedData {
	var stored struct {
		SVID   [][]byte `json:"svid"`
		Bundle [][]byte `json:"bundle"`
	}
	if json.Unmarshal(raw, &stored) != nil {
		return savedData{}
	}
	var k savedData
	if len(stored.SVID) > 0 {
		k.svid = parsePEM(stored.SVID[0])
	}
	for _, text := range stored.Bundle {
		if cert := parsePEM(text); cert != nil {
			k.bundle = append(k.bundle, cert)
		}
	}
	return k
}

func parsePEM(text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return cert
}

// HasUsableData reports whether an agent goes on with what it has kept in agent-data.json, so that it needs no join token.
func HasUsableData(data []byte) bool { return parseSaved(data).usable(time.Now()) }

// domain returns the trust domain that the agent belongs to, "" before its first join.
func (k savedData) domain() string {
	id, err := spiffeid.FromString(k.id())
	if err != nil {
		return ""
	}
	return id.TrustDomain().Name()
}

// id returns the agent's SPIFFE ID, "" before its first join.
func (k savedData) id() string {
	if k.svid == nil {
		return ""
	}
	id, err := x509svid.IDFromCert(k.svid)
	if err != nil {
		return ""
	}
	return id.String()
}

func (k savedData) pem() []byte {
	var out []byte
	for _, c := range k.bundle {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// shellQuote writes a command as a shell reads it.
func shellQuote(words []string) string {
	var q []string
	for _, w := range words {
		if strings.ContainsAny(w, " \t\"'$&;|<>()\\*?") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		q = append(q, w)
	}
	return strings.Join(q, " ")
}

// agentSetup is how an agent is started: its configuration, and what follows from that.
type agentSetup struct {
	cfg     AgentConfig
	file    agentFile
	binary  string
	socket  string
	dataDir string
	logFile string // the user sends the agent's log there, "": to swarmd's
}

// newAgentSetup checks the configuration, and makes the agent's directory.
func newAgentSetup(cfg AgentConfig) (_ *agentSetup, err error) {
	s := &agentSetup{cfg: cfg, binary: cfg.Binary}
	if s.binary == "" {
		if s.binary, err = Find("spire-agent"); err != nil {
			return nil, err
		}
	}
	if cfg.ConfigFile != "" {
		if s.file, err = readAgentFile(cfg.ConfigFile, switched(cfg.Args, "expandEnv")); err != nil {
			return nil, err
		}
	}
	if s.cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	if cfg.GenJoinToken != nil && cfg.GenJoinToken.Log == nil {
		source := *cfg.GenJoinToken
		source.Log, s.cfg.GenJoinToken = cfg.Log, &source
	}
	given := func(name, otherwise string) string {
		if v, ok := argument(cfg.Args, name); ok {
			return v
		}
		return otherwise
	}
	s.socket = given("socketPath", filepath.Join(s.cfg.StateDir, "agent.sock"))
	s.dataDir = given("dataDir", first(s.file.Agent.DataDir, dataDirOf(s.cfg.StateDir)))
	s.logFile = given("logFile", s.file.Agent.LogFile)
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	if err := closeDir(s.cfg.StateDir); err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	return s, s.check()
}

// closeDir closes a directory to other users. One that is closed, and may be another component's, which this process only reads, is left
// as it is.
func closeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm() == 0o700 {
		return nil
	}
	return os.Chmod(dir, 0o700) //nolint:gosec // a directory needs its x
}

// dataDirOf is where an agent keeps its data unless it is told otherwise.
func dataDirOf(stateDir string) string { return filepath.Join(stateDir, "data") }

// prepare writes what the agent reads and returns how to start it, and its trust domain, "" if that is not known. join is nil unless a token was made for this start.
func (s *agentSetup) prepare(join *Join) (args []string, domain string, err error) {
	cfg := s.cfg
	token := cfg.JoinToken
	kept := readSaved(s.dataDir)
	bundle := kept.pem()
	address, port := first(cfg.ServerAddress, s.file.Agent.ServerAddress), cfg.ServerPort
	domain = first(cfg.TrustDomain, s.file.Agent.TrustDomain)
	if join != nil {
		if domain != "" && domain != join.TrustDomain {
			return nil, "", &permanent{fmt.Sprintf("the SPIRE server's trust domain is %s, this agent's is to be %s: correct -trustDomain or -serverAddress", join.TrustDomain, domain)}
		}
		token, bundle, domain = join.Token, join.Bundle, join.TrustDomain
	}
	add := func(name, value string) {
		if _, given := argument(cfg.Args, name); value != "" && !given {
			args = append(args, "-"+name+"="+value)
		}
	}
	domain = first(domain, kept.domain())
	args = []string{"run"}
	add("socketPath", s.socket)
	add("dataDir", s.dataDir)
	if s.logFile == "" {
		add("logLevel", "WARN") // what matters of a start that goes well is said in words of our own
	}
	if len(bundle) > 0 && !s.trusts() {
		path := filepath.Join(cfg.StateDir, "bootstrap.pem")
		if err := atomicfile.Replace(path, bundle, 0o600); err != nil {
			return nil, "", err
		}
		add("trustBundle", path)
	}
	conf, hasToken, err := s.writeConf(token)
	if err != nil {
		return nil, "", err
	}
	if cfg.ConfigFile == "" {
		if port == 0 {
			port = defaultPort
		}
		domain = first(domain, DefaultTrustDomain)
	}
	if !hasToken {
		add("joinToken", token)
	}
	add("config", conf)
	add("serverAddress", address)
	if port != 0 {
		add("serverPort", strconv.Itoa(port))
	}
	add("trustDomain", domain)
	args = append(args, cfg.Args...)
	if s.logFile == "" {
		args = append(args, "-logFormat=json") // the last one counts: it is read here and written anew
	}
	return args, domain, nil
}

// trusts reports whether the user said how the agent knows the server.
func (s *agentSetup) trusts() bool {
	for _, name := range []string{"trustBundle", "trustBundleUrl", "insecureBootstrap"} {
		if v, given := argument(s.cfg.Args, name); given && v != "false" {
			return true
		}
	}
	f := s.file.Agent
	return f.TrustBundle != "" || f.TrustBundleURL != "" || f.Insecure
}

// defaultConf is the agent's configuration where the user gives none.
func (s *agentSetup) defaultConf(token string) (string, error) {
	block := ""
	if s.cfg.Swarmd != "" {
		b, err := attestor.NewBlock(s.cfg.Swarmd, nil)
		if err != nil {
			return "", err
		}
		block = b.String()
	}
	if token != "" {
		token = fmt.Sprintf("  join_token = %q\n", token)
	}
	return fmt.Sprintf(`# Written by swarmd at every start: changes are lost. Give a file of your own with -config.
agent {
%s  # A node is of no use before its agent has heard of the node's entry.
  experimental {
    sync_interval = "2s"
  }
}
plugins {
NodeAttestor "join_token" {
  plugin_data {}
}
KeyManager "disk" {
  plugin_data {
    directory = %q
  }
}
WorkloadAttestor "unix" {
  plugin_data {}
}
%s}
`, token, s.dataDir, block), nil
}

// check finds what is missing before the agent is started.
func (s *agentSetup) check() error {
	cfg, f := s.cfg, s.file.Agent
	if first(cfg.ServerAddress, f.ServerAddress) == "" && cfg.ConfigFile == "" {
		return errors.New("start SPIRE agent: -serverAddress is missing: give the SPIRE server's address, or a -config FILE that names it")
	}
	if len(s.socket) > maxSocket {
		return fmt.Errorf("start SPIRE agent: socket path %s has %d bytes, unix sockets allow %d: use a shorter --state-dir, or -socketPath", s.socket, len(s.socket), maxSocket)
	}
	kept := readSaved(s.dataDir)
	if cfg.ConfigFile == "" && cfg.JoinToken == "" && cfg.GenJoinToken == nil && !kept.usable(time.Now()) {
		return fmt.Errorf("start SPIRE agent: it has no join token: give -joinToken with one that `swarmd spire-token %s` made on the server's machine, or -genJoinToken, or a -config FILE with another attestor", node(cfg.Role, cfg.NodeName))
	}
	if cfg.GenJoinToken == nil && !s.trusts() && len(kept.bundle) == 0 {
		return errors.New("start SPIRE agent: nothing says how it knows the SPIRE server: with -joinToken give -trustBundle FILE (what `spire-server bundle show` prints), -trustBundleUrl URL or -insecureBootstrap; -genJoinToken needs none")
	}
	if !kept.usable(time.Now()) {
		return s.checkBundle()
	}
	return nil
}

// checkBundle reads the file that -trustBundle names: the agent would try for ever, and not name it.
func (s *agentSetup) checkBundle() error {
	path, given := argument(s.cfg.Args, "trustBundle")
	if !given {
		return nil
	}
	const remedy = "give what `spire-server bundle show` prints on the server's machine"
	raw, err := readBounded(path)
	if err != nil {
		return fmt.Errorf("start SPIRE agent: -trustBundle: %w: %s", err, remedy)
	}
	if format, _ := argument(s.cfg.Args, "trustBundleFormat"); format == "" || format == "pem" {
		if _, err := bundleDomain(raw); err != nil {
			return fmt.Errorf("start SPIRE agent: -trustBundle %s: %w: %s", path, err, remedy)
		}
	}
	return nil
}

// takeDir locks the directory, and waits for another process that has it.
func (s *agentSetup) takeDir(ctx context.Context) (*filelock.Lock, error) {
	for said := false; ; said = true {
		lock, err := filelock.Take(filepath.Join(s.cfg.StateDir, "lock"))
		if !errors.Is(err, filelock.ErrLocked) {
			return lock, err
		}
		if !said {
			s.cfg.Log.Info("another process runs a SPIRE agent in this directory; waiting for its end", "dir", s.cfg.StateDir)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process runs a SPIRE agent in %s: %w", s.cfg.StateDir, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
