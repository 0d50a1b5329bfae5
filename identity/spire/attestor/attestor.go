// Package attestor is the workload attestor "swarm" of a SPIRE agent, which runs it as a plugin in a process of its own.
//
// It gives node-type:sn, sl, swop or swci to a process whose executable, as the kernel runs it, has a digest that the
// configuration lists, and whose user may take the role that its command line names. SPIRE puts the plugin's name before
// the value: swarm:node-type:sn.
//
// What it can't stop: root, whoever may trace the process (by default every process of the same user), and a process that
// connects to the agent, leaves the connection to a child and becomes swarmd only then. So users that are not trusted alike
// need user IDs of their own and the roles limited to them.
package attestor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spiffe/spire-plugin-sdk/pluginmain"
	"github.com/spiffe/spire-plugin-sdk/pluginsdk"
	workloadattestorv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/plugin/agent/workloadattestor/v1"
	configv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/service/common/config/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/swarmd/swarmd/identity"
)

// Name is what agents' configurations call the attestor, and so the type of its selectors.
const Name = "swarm"

// cookie is the variable by which an agent tells a plugin that it started it.
const cookie = "WorkloadAttestor"

// Plugin is the attestor. The zero value attests nobody until it is configured.
type Plugin struct {
	workloadattestorv1.UnimplementedWorkloadAttestorServer
	configv1.UnimplementedConfigServer

	log     hclog.Logger
	digests digests
	said    said

	// mu guards config.
	mu     sync.RWMutex
	config *config
}

var _ pluginsdk.NeedsLogger = (*Plugin)(nil)

// Serve serves the plugin to the agent that started this process, until the agent ends it. It is an error, at once, if no
// agent did.
func Serve() error {
	if os.Getenv(cookie) != cookie {
		return errors.New("spire-plugin is started by a SPIRE agent; `swarmd spire-plugin config` prints the block for the agent's configuration file")
	}
	p := new(Plugin)
	pluginmain.Serve(workloadattestorv1.WorkloadAttestorPluginServer(p), configv1.ConfigServiceServer(p))
	return nil
}

// SetLogger takes the agent's log.
func (p *Plugin) SetLogger(log hclog.Logger) { p.log = log }

// Configure takes the block plugin_data. An error leaves the configuration before in force.
func (p *Plugin) Configure(_ context.Context, req *configv1.ConfigureRequest) (*configv1.ConfigureResponse, error) {
	c, err := newConfig(req.GetHclConfiguration())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	p.mu.Lock()
	p.config = c
	p.mu.Unlock()
	if c.missing != "" {
		p.logger().Warn("no swarmctl beside swarmd: list its digest if it shall get an identity from this agent", "path", c.missing)
	}
	return &configv1.ConfigureResponse{}, nil
}

// Validate reports whether Configure would take the block.
func (p *Plugin) Validate(_ context.Context, req *configv1.ValidateRequest) (*configv1.ValidateResponse, error) {
	_, err := newConfig(req.GetHclConfiguration())
	resp := &configv1.ValidateResponse{Valid: err == nil}
	if err != nil {
		resp.Notes = []string{err.Error()}
	}
	return resp, nil
}

// Attest returns the selectors' values of a process: none for one that is no part of the swarm. An error means that the
// process could not be looked at, as when it is gone.
func (p *Plugin) Attest(ctx context.Context, req *workloadattestorv1.AttestRequest) (*workloadattestorv1.AttestResponse, error) {
	p.mu.RLock()
	c := p.config
	p.mu.RUnlock()
	if c == nil {
		return nil, status.Error(codes.FailedPrecondition, "not configured")
	}
	w, err := p.look(ctx, int(req.GetPid()))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return nil, status.Errorf(codes.NotFound, "process %d is gone", req.GetPid())
	case errors.Is(err, fs.ErrPermission):
		p.refuse(w, "its executable may not be read: run the agent as root or as the user of the node")
		return &workloadattestorv1.AttestResponse{}, nil
	case err != nil:
		return nil, status.Errorf(codes.Internal, "look at process %d: %v", req.GetPid(), err)
	}
	if w.role == "" {
		p.logger().Debug("process is no part of a swarm", "pid", req.GetPid(), "executable", w.exe)
		return &workloadattestorv1.AttestResponse{}, nil
	}
	if why := c.refuses(w); why != "" {
		p.refuse(w, why)
		return &workloadattestorv1.AttestResponse{}, nil
	}
	return &workloadattestorv1.AttestResponse{SelectorValues: []string{value(w.role)}}, nil
}

// look finds role, user and, if it has a role, the digest of a process.
func (p *Plugin) look(ctx context.Context, pid int) (workload, error) {
	proc, err := openProcess(pid)
	if err != nil {
		return workload{pid: pid}, err
	}
	defer proc.close()
	w, err := proc.workload()
	if err != nil || w.role == "" {
		return w, err
	}
	exe, err := proc.openExe()
	if err != nil {
		return w, err
	}
	defer exe.Close()
	if w.digest, err = p.digests.of(ctx, exe); err != nil {
		return w, err
	}
	// The process may have become another program between the looks at its command line and at its executable.
	return w, proc.same(exe, w)
}

func (p *Plugin) refuse(w workload, why string) {
	if !p.said.again(w.exe+"\x00"+why, time.Now()) {
		return
	}
	p.logger().Warn("process gets no selectors: "+why, "pid", w.pid, "uid", w.uid, "executable", w.exe, "digest", w.digest.String())
}

func (p *Plugin) logger() hclog.Logger {
	if p.log == nil {
		return hclog.NewNullLogger()
	}
	return p.log
}

func value(role identity.Role) string { return "node-type:" + string(role) }

// Selector returns the selector of a role as registration entries name it.
func Selector(role identity.Role) string { return Name + ":" + value(role) }

// Self returns the selectors that an attestor with the default configuration gives to this process, none if it is no
// part of a swarm. It can't know how the agent on this machine is configured.
func Self() []string {
	w, err := new(Plugin).look(context.Background(), os.Getpid())
	if err != nil || w.role == "" {
		return nil
	}
	return []string{Selector(w.role)}
}

// said keeps the log from repeating itself: everything is said once a minute at most.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	sayAgain = time.Minute
	maxSaid  = 256
)

func (s *said) again(what string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.last[what]; ok && now.Sub(t) < sayAgain {
		return false
	}
	if s.last == nil || len(s.last) >= maxSaid {
		s.last = map[string]time.Time{}
	}
	s.last[what] = now
	return true
}

// roleOf tells which role a program takes, by its names (of the file and as it was called) and its arguments, "" for none.
func roleOf(names, args []string) identity.Role {
	for _, n := range names {
		if strings.HasPrefix(n, "swarmctl") || n == "run-swci" {
			return identity.RoleSWCI
		}
	}
	for _, a := range args {
		if strings.HasPrefix(a, "-") || a == "doctor" { // which sees what the command behind it would
			continue
		}
		if a == "recover-sn" || a == "restore-sn" { // which act for an operator
			return identity.RoleSWCI
		}
		name, ok := strings.CutPrefix(a, "run-")
		if role, err := identity.ParseRole(name); ok && err == nil {
			return role
		}
		break // only the first word is the command
	}
	return ""
}
