package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/rpc/permit"
	"github.com/swarmd/swarmd/internal/rpc/proxy"
)

type speakerKey struct{}

// spokesman is for whom a call speaks; the interceptor has checked its token.
type spokesman struct {
	node      string
	tokenHash string // of the token that the call carries
}

// speaker returns the name of the node that the call speaks for.
func speaker(ctx context.Context) string { return spokesmanFrom(ctx).node }

func spokesmanFrom(ctx context.Context) spokesman {
	who, _ := ctx.Value(speakerKey{}).(spokesman)
	return who
}

// guard holds the access table, the swarm ID and the token before a call is read, and as an interceptor maps errors and logs
// at debug.
type guard struct {
	core  Core
	lost  func(ctx context.Context) *quorum.Error
	table map[string]Access

	permits *permit.Rules
	stray   func(who identity.ID, swarmID string) // nil: nobody is told
	log     *slog.Logger
}

var _ connect.Interceptor = (*guard)(nil)

func (g *guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		start := time.Now()
		var res connect.AnyResponse
		err := g.permitted(ctx, req.Spec().Procedure, req.Any())
		if err == nil {
			res, err = next(ctx, req)
		}
		err = cause(ctx, err)
		if errors.Is(err, consensus.ErrNotLeader) || via(ctx) != "" && errors.Is(err, consensus.ErrShutdown) {
			proxy.NotLeader(ctx)
		}
		g.trace(ctx, req.Spec().Procedure, start, err)
		if err != nil {
			return nil, toConnect(err)
		}
		return res, nil
	}
}

func (g *guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		start := time.Now()
		err := g.permitted(ctx, conn.Spec().Procedure, nil)
		if err == nil {
			err = next(ctx, conn)
		}
		err = cause(ctx, err)
		g.trace(ctx, conn.Spec().Procedure, start, err)
		if err != nil {
			return toConnect(err)
		}
		return nil
	}
}

// WrapStreamingClient does nothing: this interceptor serves.
func (g *guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

type admittedKey struct{}

// admitted denies a call that did not pass admit: a mistake in the composition.
func admitted(ctx context.Context) error {
	if ctx.Value(admittedKey{}) == nil {
		return fmt.Errorf("%w: the call did not pass the middleware", ErrRoleDenied)
	}
	return nil
}

// permitted holds a call that passed admit to the swarm's rights, which may ask for what its message says.
func (g *guard) permitted(ctx context.Context, procedure string, m any) error {
	if err := admitted(ctx); err != nil {
		return err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return err
	}
	return g.permits.CheckCall(g.core.View(), caller.ID, procedure, m)
}

// admit checks role, swarm and token, in this order, so that who may not call learns nothing of the swarm's nodes.
func (g *guard) admit(ctx context.Context, procedure string, h http.Header) (context.Context, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return ctx, err
	}
	rule, ok := g.table[procedure]
	if !ok || !rule.permits(caller.ID.Role()) || caller.passed && !rule.Leader {
		return ctx, roleDenied(caller.ID.Role(), procedure)
	}
	view := g.core.View()
	if err := checkSwarm(pinOf(view), h.Get(HeaderSwarmID), rule.AnySwarm); err != nil {
		if g.stray != nil && errors.Is(err, ErrWrongSwarm) {
			g.stray(caller.ID, h.Get(HeaderSwarmID))
		}
		if view.SwarmID != "" {
			return ctx, err
		}
		if lost := g.lost(ctx); lost != nil {
			err = lost // a member that was started again: which swarm it is of stands in its log, which nobody leads
		}
		return ctx, err
	}
	ctx = context.WithValue(ctx, admittedKey{}, true)
	if !rule.Token {
		return ctx, nil
	}
	name := h.Get(HeaderNode)
	hash, err := g.checkToken(caller, name, h.Get(HeaderToken))
	if err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, speakerKey{}, spokesman{name, hash}), nil
}

func roleDenied(role identity.Role, procedure string) error {
	return fmt.Errorf("%w: role %s may not call %s", ErrRoleDenied, role, procedure)
}

func checkSwarm(own epoch.Pin, got string, anySwarm bool) error {
	switch {
	case own.SwarmID == "":
		return ErrNoSwarm
	case got == "" && anySwarm:
		return nil
	case got == "":
		return ErrSwarmIDMissing
	}
	theirs, _ := epoch.Parse(got)
	switch own.Compare(got) {
	case epoch.Same:
		return nil
	case epoch.Older:
		return fmt.Errorf("%w: the swarm was recovered as epoch %d, the caller follows epoch %d", ErrWrongSwarm, own.Number(), theirs.Number())
	case epoch.Newer:
		return fmt.Errorf("%w: the caller's swarm was recovered as epoch %d, this SN is of epoch %d", ErrWrongSwarm, theirs.Number(), own.Number())
	case epoch.Another:
		return fmt.Errorf("%w: this SN is of another recovery to epoch %d than the caller follows", ErrWrongSwarm, own.Number())
	}
	return fmt.Errorf("%w: the caller belongs to swarm %.64q, this is swarm %q", ErrWrongSwarm, got, own.SwarmID)
}

// checkToken accepts a call that speaks for a node: the token is the one that registration returned last, and the
// connection has the SPIFFE ID that registered. One answer for all refusals but a ban's: the remedy is the same. It returns
// the token's hash.
func (g *guard) checkToken(caller Caller, name, token string) (string, error) {
	node := g.core.View().Nodes[name]
	if node == nil {
		return "", fmt.Errorf("%w: node %.64q is not registered", ErrTokenRefused, name)
	}
	if node.SPIFFEID != caller.ID.String() {
		return "", fmt.Errorf("%w: node %q is registered under another SPIFFE ID than %s", ErrTokenRefused, name, caller.ID)
	}
	if err := g.core.View().CheckBan(node.PeerID); err != nil {
		return "", err
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) == 0 || len(raw) > 64 {
		return "", fmt.Errorf("%w: malformed token", ErrTokenRefused)
	}
	hash := tokenHash(raw)
	if !node.HasToken(hash) {
		return "", fmt.Errorf("%w: not the token of node %q's last registration", ErrTokenRefused, name)
	}
	return hash, nil
}

// tokenHash is what the replicated state holds of a token.
func tokenHash(token []byte) string {
	sum := sha256.Sum256(token)
	return hex.EncodeToString(sum[:])
}

// cause replaces a bare "context canceled" by why the request ended, where the server ended it.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		if c := context.Cause(ctx); c != nil && c != ctx.Err() { //nolint:errorlint // identity is what is asked
			return c
		}
	}
	return err
}

func (g *guard) trace(ctx context.Context, procedure string, start time.Time, err error) {
	var sorted *connect.Error // made by connect itself or by recoverPanic: not a riddle
	if err != nil && !errors.As(err, &sorted) && ReasonOf(err) == ReasonInternal {
		g.log.ErrorContext(ctx, "API call failed", "procedure", procedure, "err", err) // the caller is told nothing
	}
	if !g.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []any{"procedure", procedure, "duration", time.Since(start)}
	if c, e := callerFrom(ctx); e == nil {
		attrs = append(attrs, "caller", c.ID.String())
	}
	if err != nil {
		attrs = append(attrs, "err", err, "reason", ReasonOf(err))
	}
	g.log.DebugContext(ctx, "served API call", attrs...)
}

func stack() string { return string(debug.Stack()) }
