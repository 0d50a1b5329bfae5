package client

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/text"
)

// The methods below repeat their call, on other SNs too, until it succeeds, is refused or ctx ends.

// GetSwarm returns the swarm's ID, SNs and leader. It pins the ID and learns the SNs.
func (c *Client) GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error) {
	res, err := call(ctx, c, callOptions{anySwarm: true}, swarmv1connect.SwarmServiceClient.GetSwarm, &swarmv1.GetSwarmRequest{})
	if err != nil {
		return nil, err
	}
	c.dir.learn(res.GetSwarmId(), res.GetEpoch(), res.GetSns())
	return res, nil
}

// ListNodes returns all registered nodes, sorted by role and name, all bans, the SNs that have not joined, and whether the SN that says so has a quorum.
func (c *Client) ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
	return call(ctx, c, callOptions{}, swarmv1connect.NodeServiceClient.ListNodes, &swarmv1.ListNodesRequest{})
}

// OpenSession enrols a session of our node. Needs Register before, as do the other session calls. What does not print in the
// request's isolation, such as the path of a mount may hold, is replaced: SNs refuse it.
func (c *Client) OpenSession(ctx context.Context, req *swarmv1.OpenSessionRequest) (*swarmv1.ContractView, error) {
	if isolation := text.Printable(req.GetIsolation(), '?'); isolation != req.GetIsolation() {
		req = proto.CloneOf(req)
		req.Isolation = isolation
	}
	res, err := call(ctx, c, callOptions{asNode: true}, swarmv1connect.SessionServiceClient.OpenSession, req)
	return res.GetContract(), err
}

// Report is one heartbeat of our node. The answer names the leader that took it and tells who is banned. OnWait is not told of one that
// takes too long: on a busy machine each node has such, again and again.
func (c *Client) Report(ctx context.Context, req *swarmv1.ReportRequest) (*swarmv1.ReportResponse, error) {
	opts := callOptions{asNode: true, heartbeat: true, timeout: heartbeatTimeout}
	res, err := call(ctx, c, opts, swarmv1connect.SessionServiceClient.Report, req)
	if err == nil {
		c.registrar.setWanted(res.GetRegister())
		c.verdict.set("", "")
	}
	return res, err
}

// proofTimeout bounds the question for proofs at one SN: an attempt of a round may wait for it.
const proofTimeout = 5 * time.Second

// GetProofs returns what nodes' own SVIDs have signed for their registrations, of those of these names that have shown it.
func (c *Client) GetProofs(ctx context.Context, names []string) ([]*swarmv1.NodeProof, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	res, err := call(ctx, c, callOptions{asNode: true}, swarmv1connect.NodeServiceClient.GetProofs, &swarmv1.GetProofsRequest{Names: names})
	return res.GetProofs(), err
}

// CloseSession tells that a session's training ended.
func (c *Client) CloseSession(ctx context.Context, req *swarmv1.CloseSessionRequest) (*swarmv1.ContractView, error) {
	res, err := call(ctx, c, callOptions{asNode: true}, swarmv1connect.SessionServiceClient.CloseSession, req)
	return res.GetContract(), err
}

// EndSession tells that a session is gone.
func (c *Client) EndSession(ctx context.Context, req *swarmv1.EndSessionRequest) error {
	_, err := call(ctx, c, callOptions{asNode: true}, swarmv1connect.SessionServiceClient.EndSession, req)
	return err
}

// ListContracts returns all contracts, sorted by name, and whether the SN that says so has a quorum.
func (c *Client) ListContracts(ctx context.Context) (*swarmv1.ListContractsResponse, error) {
	return call(ctx, c, callOptions{}, swarmv1connect.ContractServiceClient.ListContracts, &swarmv1.ListContractsRequest{})
}

// GetContractStatus returns a contract with progress and the reason why no round is running.
func (c *Client) GetContractStatus(ctx context.Context, contract string) (*swarmv1.GetContractStatusResponse, error) {
	return call(ctx, c, callOptions{}, swarmv1connect.ContractServiceClient.GetContractStatus, &swarmv1.GetContractStatusRequest{Contract: contract})
}

// LeaveNode takes this node out of the swarm: it is left out at once instead of being found dead, and its absence is no fault.
// From then on no call registers the node again by itself, so a heartbeat in flight can't undo it; Register does. It blocks
// until an SN has committed it or ctx ends.
func (c *Client) LeaveNode(ctx context.Context, reason string) error {
	// A registration that is under way comes first: its token is the newest then.
	release, err := c.registrar.alone(ctx)
	c.registrar.setLeaving(true)
	if err != nil {
		return fmt.Errorf("leave the swarm: a registration is under way: %w", err)
	}
	release()
	_, err = call(ctx, c, callOptions{asNode: true}, swarmv1connect.NodeServiceClient.LeaveNode, &swarmv1.LeaveNodeRequest{Reason: reason})
	return err
}

// RecordFetch has the ledger note that our node lets a model out, and returns when it has.
func (c *Client) RecordFetch(ctx context.Context, req *swarmv1.RecordFetchRequest) error {
	_, err := call(ctx, c, callOptions{asNode: true}, swarmv1connect.ModelServiceClient.RecordFetch, req)
	return err
}

func encodeToken(t []byte) string { return base64.RawURLEncoding.EncodeToString(t) }

// NoticedEvents returns what SNs have noticed, newest first, so many at most: nothing but the version if that is the one that is known.
func NoticedEvents(ctx context.Context, c *Client, most uint32, known uint64) (*swarmv1.GetEventsResponse, error) {
	return call(ctx, c, callOptions{}, swarmv1connect.LedgerServiceClient.GetEvents, &swarmv1.GetEventsRequest{Most: most, Known: known})
}
