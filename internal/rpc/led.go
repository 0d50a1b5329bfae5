package rpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/proxy"
)

// led has the leader answer a call, which is this SN or gets the same bytes.
func (s *Server) led(w http.ResponseWriter, r *http.Request, caller Caller, rule Access) {
	here := s.services
	body, err := io.ReadAll(r.Body)
	if err != nil { // it says of it what it would have said
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		here.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(rule.Timeout, proposeTimeout))
	defer cancel()
	call := proxy.Call{Request: r, Body: body, MaxAnswer: rule.passedAnswer(), Here: here, Claims: func() (proxy.Claims, error) { return claimsFor(caller, r.URL.Path) }}
	answer, err := call.Do(ctx, s.cfg.Core)
	if err == nil {
		if index, err := strconv.ParseUint(answer.Header().Get(proxy.HeaderIndex), 10, 64); err == nil {
			_ = s.see(ctx, func(_ *state.State, have uint64) bool { return have >= index }) // late, what was committed shows all the same
		}
		answer.Header().Del(proxy.HeaderIndex)
		answer.WriteTo(w)
		return
	}
	if errors.Is(err, consensus.ErrNoLeader) && r.URL.Path == swarmv1connect.ContractServiceGetContractStatusProcedure {
		r.Body = io.NopCloser(bytes.NewReader(body))
		here.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), leaderlessKey{}, err)))
		return
	}
	err = cause(r.Context(), err)
	s.entrance.guard().trace(ctx, r.URL.Path, s.cfg.Now(), err)
	_ = connect.NewErrorWriter().Write(w, r, toConnect(err)) // the client is gone: nobody to tell
}

type leaderlessKey struct{}

// leaderlessFrom returns why the leader could not be asked, in a call that this SN then answers as far as it can.
func leaderlessFrom(ctx context.Context) error {
	err, _ := ctx.Value(leaderlessKey{}).(error)
	return err
}

// failing is the rest of a body that did not come.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// claimsFor is what this SN tells the leader of a caller: what the leader needs to hold to what it knows, and to check itself.
func claimsFor(c Caller, procedure string) (out proxy.Claims, err error) {
	out.Caller = c.ID.String()
	switch procedure {
	case swarmv1connect.NodeServiceRegisterProcedure:
		if c.Exporter == nil {
			break
		}
		if out.Exporter, err = c.Exporter(); err != nil {
			return out, fmt.Errorf("export keying material: %w", err)
		}
	case swarmv1connect.NodeServiceChallengeProcedure:
	default:
		return out, nil
	}
	for _, cert := range c.chain() {
		out.Chain = append(out.Chain, cert.Raw)
	}
	return out, nil
}

// passedOn finds out who makes a request that another SN has sent: that SN, or whom it passes on, by its own word but for a certificate,
// which is checked.
func (s *Server) passedOn(r *http.Request) (Caller, error) {
	from := consensus.PeerOf(r.Context())
	sn, err := identity.ParseIDString(from.SPIFFEID)
	if err == nil && sn.Role() != identity.RoleSN {
		err = fmt.Errorf("%s is no SN", sn)
	}
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrNoCertificate, err)
	}
	claims, passedOn, err := proxy.ClaimsOf(r.Header)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	c := Caller{ID: sn, via: from.PeerID}
	if !passedOn {
		return c, nil
	}
	c.passed = true
	if c.ID, err = identity.ParseIDString(claims.Caller); err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrNoCertificate, err)
	}
	if len(claims.Chain) == 0 {
		return c, nil
	}
	if c.Chain, err = identity.ParseChain(claims.Chain); err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrNoCertificate, err)
	}
	if s.cfg.Source == nil {
		return Caller{}, fmt.Errorf("%w: this SN has nothing to check a certificate by", ErrNoCertificate)
	}
	if id, err := identity.VerifyChain(s.cfg.Source, c.Chain); err != nil || id.String() != claims.Caller {
		return Caller{}, fmt.Errorf("%w: not that of %.128s: %w", ErrNoCertificate, claims.Caller, err)
	}
	c.Leaf, c.Exporter = c.Chain[0], func() ([]byte, error) { return claims.Exporter, nil }
	return c, nil
}

// Between returns the API as this SN answers it to other SNs while it leads, for consensus.Group.ServeAPI.
func (s *Server) Between() http.Handler {
	return s.entrance.authenticate(s.passedOn, func(w http.ResponseWriter, r *http.Request, _ Caller, rule Access) {
		answer, err := proxy.Record(s.services, r)
		if errors.Is(err, consensus.ErrNotLeader) {
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		if err != nil {
			return // nobody waits any more
		}
		if rule.Leader && rule.commits() {
			answer.Header().Set(proxy.HeaderIndex, strconv.FormatUint(s.cfg.Core.Index(), 10))
		}
		answer.WriteTo(w)
	})
}

// via returns the SN that sent a call, by its node key; empty if it came to this SN itself.
func via(ctx context.Context) string {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c.via
}
