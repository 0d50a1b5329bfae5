package swci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// identityWait is how long swarmctl waits for its SVID: an authority that is up answers in milliseconds.
const identityWait = 10 * time.Second

// callWait bounds one API call, in which the client may try several SNs several times.
const callWait = 20 * time.Second

// Dial connects to a swarm's SNs over mutual TLS with an SVID of the role swci.
func Dial(identify Identify) Connect {
	return func(ctx context.Context, target Context) (API, func(), error) {
		log := slog.New(slog.DiscardHandler)
		source, domains, err := identify(ctx, target)
		if err != nil {
			return nil, func() {}, err
		}
		c, err := client.New(client.Config{
			SNs: target.SNs, SwarmID: target.pinned(), Source: source, Domains: domains, Log: log, OnWait: target.onWait, OnStray: target.stray(),
			OnFollow: target.onFollow, OnStay: target.stay(),
			GiveUp: true,
		})
		if err != nil {
			_ = source.Close()
			return nil, func() {}, &exit.Error{Status: exit.Usage, Err: err, Hint: "give --sn HOST:PORT"}
		}
		done := func() {
			_ = c.Close()
			_ = source.Close()
		}
		differ, err := c.Choose(ctx)
		if err != nil {
			done()
			return nil, func() {}, apiError(err)
		}
		if differ != "" && target.onWait != nil {
			target.onWait(differ)
		}
		return remote{c}, done, nil
	}
}

// stray tells the user which SN of a context is of another swarm. Where it is the only one the error says so, and where no swarm is
// pinned those that were named are compared.
func (c Context) stray() func(sn, swarmID string) {
	if c.SwarmID == "" || len(c.SNs) < 2 || c.onWait == nil {
		return nil
	}
	return func(sn, swarmID string) {
		c.onWait(fmt.Sprintf("SN %s is of swarm %s, not of swarm %s, which this context is", sn, swarmID, c.SwarmID))
	}
}

// stay tells the user why a later epoch of the context's swarm is not followed.
func (c Context) stay() func(sn, why string) {
	if c.onWait == nil {
		return nil
	}
	return func(sn, why string) {
		c.onWait(fmt.Sprintf("SN %s says that the swarm was recovered, which is not believed: %s", sn, why))
	}
}

// Identify opens swarmctl's own identity and tells which trust domains it accepts. The caller closes the source.
type Identify func(ctx context.Context, target Context) (identity.Provider, identity.Domains, error)

// OpenIdentity opens the identity of the role swci that target names; its SNs do not matter.
func OpenIdentity(env Env) Identify {
	return func(ctx context.Context, target Context) (identity.Provider, identity.Domains, error) {
		if strings.HasPrefix(target.Identity, filesPrefix) {
			return openFiles(ctx, target)
		}
		if target.agent != nil {
			source, err := openAgent(ctx, env, target)
			return withDomains(source, err, target)
		}
		socket, err := identitySocket(target.Identity, env.Getenv)
		if err != nil {
			return nil, identity.Domains{}, err
		}
		if err := identityAnswers(ctx, socket); err != nil {
			return nil, identity.Domains{}, err
		}
		wait, cancel := context.WithTimeout(ctx, identityWait)
		defer cancel()
		source, err := identity.OpenSource(wait, identity.SourceConfig{Socket: socket, Role: identity.RoleSWCI, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			hint := first(spire.ExplainHost(identity.RoleSWCI, "")(err), "is the SPIRE agent or the embedded authority running, and is swarmctl registered there as /swarm/swci?")
			return nil, identity.Domains{}, exit.New(exit.Unreachable, hint, "get SVID from %s: %w", socket, err)
		}
		return withDomains(source, nil, target)
	}
}

// withDomains adds the trust domains that are accepted beside the source's own. It closes the source if it fails.
func withDomains(source identity.Provider, err error, target Context) (identity.Provider, identity.Domains, error) {
	if err != nil {
		return nil, identity.Domains{}, err
	}
	domains, err := identity.NewDomains(source.ID().SPIFFE().TrustDomain(), target.TrustDomains...)
	if err != nil {
		_ = source.Close()
		return nil, identity.Domains{}, &exit.Error{Status: exit.Usage, Err: err}
	}
	return source, domains, nil
}

// identityAnswers fails at once, and says why, when nothing can come from an identity socket.
func identityAnswers(ctx context.Context, socket string) error {
	const hint = "start the SPIRE agent or swarmd run-authority, or name the right place with --identity"
	path := strings.TrimPrefix(strings.TrimPrefix(socket, "unix://"), "unix:")
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return exit.New(exit.Unreachable, hint, "no identity socket at %s", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return exit.New(exit.Unreachable, hint, "nothing answers at identity socket %s", path)
	case errors.Is(err, fs.ErrPermission):
		return exit.New(exit.Denied, "run swarmctl as the user who may open it", "identity socket %s: permission denied", path)
	}
	return exit.New(exit.Unreachable, hint, "open identity socket: %w", err)
}

// remote gives the client's calls a time limit, and its errors exit codes.
type remote struct{ c *client.Client }

var _ API = remote{}

// bounded runs one call.
func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	v, err := call(ctx)
	return v, apiError(err)
}

// GetSwarm implements API.
func (r remote) GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error) {
	return bounded(ctx, r.c.GetSwarm)
}

// ListNodes implements API.
func (r remote) ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
	return bounded(ctx, r.c.NodeList)
}

// ForgetNode implements API.
func (r remote) ForgetNode(ctx context.Context, name string) error {
	_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.c.ForgetNode(ctx, name) })
	return err
}

// GetHealth implements API.
func (r remote) GetHealth(ctx context.Context) ([]client.SNHealth, error) {
	return bounded(ctx, r.c.GetHealth)
}

// ListContracts implements API.
func (r remote) ListContracts(ctx context.Context) (*swarmv1.ListContractsResponse, error) {
	return bounded(ctx, r.c.ContractList)
}

// GetContractStatus implements API.
func (r remote) GetContractStatus(ctx context.Context, name string) (*swarmv1.GetContractStatusResponse, error) {
	return bounded(ctx, func(ctx context.Context) (*swarmv1.GetContractStatusResponse, error) {
		return r.c.GetContractStatus(ctx, name)
	})
}

// CreateContract implements API.
func (r remote) CreateContract(ctx context.Context, name string, rules *swarmv1.Rules) (*swarmv1.ContractView, error) {
	return bounded(ctx, func(ctx context.Context) (*swarmv1.ContractView, error) { return r.c.CreateContract(ctx, name, rules) })
}

// ListModels implements API.
func (r remote) ListModels(ctx context.Context, contract string) (*swarmv1.ListModelsResponse, error) {
	return bounded(ctx, func(ctx context.Context) (*swarmv1.ListModelsResponse, error) { return r.c.ListModels(ctx, contract) })
}

// ResetContract implements API.
func (r remote) ResetContract(ctx context.Context, name string, force bool) (uint64, error) {
	return bounded(ctx, func(ctx context.Context) (uint64, error) { return r.c.ResetContract(ctx, name, force) })
}

// DeleteContract implements API.
func (r remote) DeleteContract(ctx context.Context, name string, force bool) (uint64, error) {
	return bounded(ctx, func(ctx context.Context) (uint64, error) { return r.c.DeleteContract(ctx, name, force) })
}

// disagree are the reasons of the API that say that its SNs can't agree, or could not any more.
func disagree() []string {
	return []string{client.ReasonNoLeader, client.ReasonNoQuorum, client.ReasonQuorum}
}

// rpcCodes maps RPC codes to exit codes; a code that is absent means Failed.
var rpcCodes = map[connect.Code]int{
	connect.CodeUnavailable:        exit.Unreachable,
	connect.CodePermissionDenied:   exit.Denied,
	connect.CodeUnauthenticated:    exit.Denied,
	connect.CodeNotFound:           exit.NotFound,
	connect.CodeAlreadyExists:      exit.Conflict,
	connect.CodeFailedPrecondition: exit.Conflict,
	connect.CodeAborted:            exit.Conflict,
	connect.CodeDeadlineExceeded:   exit.TimedOut,
	connect.CodeCanceled:           exit.Interrupted,
}

// apiError gives a client's error its exit code and remedy; nil stays nil.
func apiError(err error) error {
	var e *client.Error
	if !errors.As(err, &e) {
		return err
	}
	out := &exit.Error{Status: exit.Failed, Err: fmt.Errorf("%s", text.Line(e.Message)), Hint: e.Remedy}
	if code, ok := rpcCodes[e.Code]; ok {
		out.Status = code
	}
	if slices.Contains(disagree(), e.Reason) {
		out.Status = exit.NoLeader
	}
	if errors.Is(err, context.Canceled) {
		out.Status = exit.Interrupted
	}
	return out
}
