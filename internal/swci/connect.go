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

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// identityWait is how long swarmctl waits for its SVID: an authority that is up answers in milliseconds.
const identityWait = 10 * time.Second

// callWait bounds one API call, in which the client may try several SNs several times. Those that copy much have more.
const callWait = 20 * time.Second

// Dial connects to a swarm's SNs over mutual TLS with an SVID of the role swci.
func Dial(identify Identify) Connect {
	return func(ctx context.Context, target Context) (client.Operator, func(), error) {
		log := slog.New(slog.DiscardHandler)
		source, domains, err := identify(ctx, target)
		if err != nil {
			return client.Operator{}, func() {}, err
		}
		c, err := client.New(client.Config{
			SNs: target.SNs, SwarmID: target.pinned(), Source: source, Domains: domains, Log: log, OnWait: target.calls.onWait, OnStray: target.stray(),
			OnFollow: target.calls.onFollow, OnStay: target.stay(),
			GiveUp: true, CallWait: callWait,
		})
		if err != nil {
			_ = source.Close()
			return client.Operator{}, func() {}, &exit.Error{Status: exit.Usage, Err: err, Hint: "give --sn HOST:PORT"}
		}
		done := func() {
			_ = c.Close()
			_ = source.Close()
		}
		differ, err := c.Choose(ctx)
		if err != nil {
			done()
			return client.Operator{}, func() {}, apiError(err)
		}
		if differ != "" && target.calls.onWait != nil {
			target.calls.onWait(differ)
		}
		return client.Operator{Client: c}, done, nil
	}
}

// stray tells the user which SN of a context is of another swarm. Where it is the only one the error says so, and where no swarm is
// pinned those that were named are compared.
func (c Context) stray() func(sn, swarmID string) {
	if c.SwarmID == "" || len(c.SNs) < 2 || c.calls.onWait == nil {
		return nil
	}
	return func(sn, swarmID string) {
		c.calls.onWait(fmt.Sprintf("SN %s is of swarm %s, not of swarm %s, which this context is", sn, swarmID, c.SwarmID))
	}
}

// stay tells the user why a later epoch of the context's swarm is not followed.
func (c Context) stay() func(sn, why string) {
	if c.calls.onWait == nil {
		return nil
	}
	return func(sn, why string) {
		c.calls.onWait(fmt.Sprintf("SN %s says that the swarm was recovered, which is not believed: %s", sn, why))
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
		prefix, err := identity.ParsePrefix(target.SPIFFEPrefix)
		if err != nil {
			return nil, identity.Domains{}, &exit.Error{Status: exit.Usage, Err: err}
		}
		if target.agent != nil {
			source, err := openAgent(ctx, env, target, prefix)
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
		source, err := identity.OpenSource(wait, identity.SourceConfig{Socket: socket, Role: identity.RoleSWCI, Else: identity.RoleAudit, Prefix: prefix, Log: slog.New(slog.DiscardHandler)})
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
	domains, err := identity.DomainsOf(source, target.TrustDomains...)
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

// apiError gives an error of the client's its exit code and remedy, unless it has a code; others stay as they are, nil too.
func apiError(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	if _, has := errors.AsType[*exit.Error](err); has {
		return err
	}
	out := &exit.Error{Status: exit.Failed, Err: err, Hint: e.Remedy}
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
