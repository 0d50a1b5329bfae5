package client

import (
	"context"
	"encoding/base64"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/text"
)

// The methods below repeat their call, on other SNs too, until it succeeds, is refused or ctx ends.

// GetSwarm returns the swarm's ID, SNs and leader. It pins the ID and learns the SNs.
func (c *Client) GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error) {
	res, err := call(ctx, c, manner{anySwarm: true}, &swarmv1.GetSwarmRequest{},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.GetSwarmRequest]) (*connect.Response[swarmv1.GetSwarmResponse], error) {
			return s.swarm.GetSwarm(ctx, r)
		})
	if err != nil {
		return nil, err
	}
	c.learn(res.GetSwarmId(), res.GetEpoch(), res.GetSns())
	return res, nil
}

// ListNodes returns all registered nodes, sorted by role and name.
func (c *Client) ListNodes(ctx context.Context) ([]*swarmv1.Node, error) {
	res, err := c.NodeList(ctx)
	return res.GetNodes(), err
}

// NodeList returns all registered nodes, all bans, the SNs that have not joined, and whether the SN that says so has a quorum.
func (c *Client) NodeList(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
	return call(ctx, c, manner{}, &swarmv1.ListNodesRequest{},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.ListNodesRequest]) (*connect.Response[swarmv1.ListNodesResponse], error) {
			return s.node.ListNodes(ctx, r)
		})
}

// OpenSession enrols a session of our node. Needs Register before, as do the other session calls. What does not print in the
// request's isolation, such as the path of a mount may hold, is replaced: SNs refuse it.
func (c *Client) OpenSession(ctx context.Context, req *swarmv1.OpenSessionRequest) (*swarmv1.ContractView, error) {
	if isolation := text.Printable(req.GetIsolation(), '?'); isolation != req.GetIsolation() {
		req = proto.CloneOf(req)
		req.Isolation = isolation
	}
	res, err := call(ctx, c, manner{speaks: true}, req,
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.OpenSessionRequest]) (*connect.Response[swarmv1.OpenSessionResponse], error) {
			return s.session.OpenSession(ctx, r)
		})
	return res.GetContract(), err
}

// Report is one heartbeat of our node. The answer names the leader that took it and tells who is banned.
func (c *Client) Report(ctx context.Context, req *swarmv1.ReportRequest) (*swarmv1.ReportResponse, error) {
	res, err := call(ctx, c, manner{speaks: true, within: heartbeatTimeout}, req,
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.ReportRequest]) (*connect.Response[swarmv1.ReportResponse], error) {
			return s.beat.Report(ctx, r)
		})
	if err == nil {
		c.mu.Lock()
		c.wanted = res.GetRegister()
		c.mu.Unlock()
		c.setLost("", "")
	}
	return res, err
}

// proofTimeout bounds the question for proofs at one SN: an attempt of a round may wait for it.
const proofTimeout = 5 * time.Second

// GetProofs returns what nodes' own SVIDs have signed for their registrations, of those of these names that have shown it.
func (c *Client) GetProofs(ctx context.Context, names []string) ([]*swarmv1.NodeProof, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	res, err := call(ctx, c, manner{speaks: true}, &swarmv1.GetProofsRequest{Names: names},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.GetProofsRequest]) (*connect.Response[swarmv1.GetProofsResponse], error) {
			return s.node.GetProofs(ctx, r)
		})
	return res.GetProofs(), err
}

// CloseSession tells that a session's training ended.
func (c *Client) CloseSession(ctx context.Context, req *swarmv1.CloseSessionRequest) (*swarmv1.ContractView, error) {
	res, err := call(ctx, c, manner{speaks: true}, req,
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.CloseSessionRequest]) (*connect.Response[swarmv1.CloseSessionResponse], error) {
			return s.session.CloseSession(ctx, r)
		})
	return res.GetContract(), err
}

// EndSession tells that a session is gone.
func (c *Client) EndSession(ctx context.Context, req *swarmv1.EndSessionRequest) error {
	_, err := call(ctx, c, manner{speaks: true}, req,
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.EndSessionRequest]) (*connect.Response[swarmv1.EndSessionResponse], error) {
			return s.session.EndSession(ctx, r)
		})
	return err
}

// ListContracts returns all contracts, sorted by name.
func (c *Client) ListContracts(ctx context.Context) ([]*swarmv1.ContractSummary, error) {
	res, err := c.ContractList(ctx)
	return res.GetContracts(), err
}

// ContractList returns all contracts, and whether the SN that says so has a quorum.
func (c *Client) ContractList(ctx context.Context) (*swarmv1.ListContractsResponse, error) {
	return call(ctx, c, manner{}, &swarmv1.ListContractsRequest{},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.ListContractsRequest]) (*connect.Response[swarmv1.ListContractsResponse], error) {
			return s.contract.ListContracts(ctx, r)
		})
}

// GetContractStatus returns a contract with progress and the reason why no round is running.
func (c *Client) GetContractStatus(ctx context.Context, contract string) (*swarmv1.GetContractStatusResponse, error) {
	return call(ctx, c, manner{}, &swarmv1.GetContractStatusRequest{Contract: contract},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.GetContractStatusRequest]) (*connect.Response[swarmv1.GetContractStatusResponse], error) {
			return s.contract.GetContractStatus(ctx, r)
		})
}

// ResetContract begins a new run of a contract and returns its number. It names the run that it ends, so that repeating
// it does no harm.
func (c *Client) ResetContract(ctx context.Context, contract string, force bool) (uint64, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return 0, err
	}
	req := &swarmv1.ResetContractRequest{Contract: contract, Force: force, Run: run}
	res, err := ordered(ctx, c, manner{once: req.GetRun() == 0}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.ResetContractRequest]) (*connect.Response[swarmv1.ResetContractResponse], error) {
			return s.contract.ResetContract(ctx, r)
		})
	return res.GetRun(), err
}

// LeaveNode says goodbye for this node: it is left out at once instead of being found dead, and its absence is no fault.
// From then on no call registers the node again by itself, so a heartbeat in flight can't undo it; Register does. It blocks
// until an SN has committed it or ctx ends.
func (c *Client) LeaveNode(ctx context.Context, reason string) error {
	// A registration that is under way comes first: its token is the newest then.
	c.registering.Lock()
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.registering.Unlock()
	_, err := call(ctx, c, manner{speaks: true}, &swarmv1.LeaveNodeRequest{Reason: reason},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.LeaveNodeRequest]) (*connect.Response[swarmv1.LeaveNodeResponse], error) {
			return s.node.LeaveNode(ctx, r)
		})
	return err
}

// ForgetNode frees the name of a dead node.
func (c *Client) ForgetNode(ctx context.Context, name string) error {
	req := &swarmv1.ForgetNodeRequest{Name: name}
	_, err := ordered(ctx, c, manner{}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.ForgetNodeRequest]) (*connect.Response[swarmv1.ForgetNodeResponse], error) {
			return s.node.ForgetNode(ctx, r)
		})
	return err
}

// BanNode shuts the key of a node out, named by the node or by its peer ID, and returns the ban. A key that is banned
// already keeps its first ban.
func (c *Client) BanNode(ctx context.Context, name, reason string) (*swarmv1.Ban, error) {
	// An SN does not ban itself, so another one must be known.
	if _, err := c.GetSwarm(ctx); err != nil {
		return nil, err
	}
	req := &swarmv1.BanNodeRequest{Name: name, Reason: reason}
	res, err := ordered(ctx, c, manner{}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.BanNodeRequest]) (*connect.Response[swarmv1.BanNodeResponse], error) {
			return s.node.BanNode(ctx, r)
		})
	return res.GetBan(), err
}

// UnbanNode lets a node key in again, named as for BanNode or as it was when it was banned.
func (c *Client) UnbanNode(ctx context.Context, name string) error {
	req := &swarmv1.UnbanNodeRequest{Name: name}
	_, err := ordered(ctx, c, manner{}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.UnbanNodeRequest]) (*connect.Response[swarmv1.UnbanNodeResponse], error) {
			return s.node.UnbanNode(ctx, r)
		})
	return err
}

// AdmitNode lets a node key join as the SN of a name.
func (c *Client) AdmitNode(ctx context.Context, name, peerID string) error {
	req := &swarmv1.AdmitNodeRequest{Name: name, PeerId: peerID}
	_, err := ordered(ctx, c, manner{}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.AdmitNodeRequest]) (*connect.Response[swarmv1.AdmitNodeResponse], error) {
			return s.node.AdmitNode(ctx, r)
		})
	return err
}

func encodeToken(t []byte) string { return base64.RawURLEncoding.EncodeToString(t) }
