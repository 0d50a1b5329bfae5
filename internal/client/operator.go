package client

import (
	"context"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

// Operator is a client whose SVID is an operator's, or of whoever may ask what its methods ask for. Those that change the swarm are
// signed by it, for the raft leader to check and the ledger to keep.
type Operator struct{ *Client }

// ListModels returns the committed models of a contract that live nodes hold, newest first.
func (c Operator) ListModels(ctx context.Context, contract string) (*swarmv1.ListModelsResponse, error) {
	return call(ctx, c.Client, callOptions{}, swarmv1connect.ModelServiceClient.ListModels, &swarmv1.ListModelsRequest{Contract: contract})
}

// CreateContract sets all rules of a contract, and makes it if there is none; the method must be in its canonical form. It
// returns the contract as committed. Repeating it does no harm.
func (c Operator) CreateContract(ctx context.Context, contract string, rules *swarmv1.Rules) (*swarmv1.ContractView, error) {
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.ContractServiceClient.CreateContract, &swarmv1.CreateContractRequest{Contract: contract, Rules: rules})
	return res.GetContract(), err
}

// ResetContract begins a new run of a contract and returns its number. It names the run that it ends, so that repeating
// it does no harm.
func (c Operator) ResetContract(ctx context.Context, contract string, force bool) (uint64, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return 0, err
	}
	req := &swarmv1.ResetContractRequest{Contract: contract, Force: force, Run: run}
	res, err := ordered(ctx, c, callOptions{once: run == 0}, swarmv1connect.ContractServiceClient.ResetContract, req)
	return res.GetRun(), err
}

// DeleteContract removes a contract and returns its last run. It names that run, so that repeating it does no harm.
func (c Operator) DeleteContract(ctx context.Context, contract string, force bool) (uint64, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return 0, err
	}
	req := &swarmv1.DeleteContractRequest{Contract: contract, Force: force, Run: run}
	res, err := ordered(ctx, c, callOptions{once: run == 0}, swarmv1connect.ContractServiceClient.DeleteContract, req)
	return res.GetRun(), err
}

// PauseContract has no round of a contract planned until it is resumed, and returns the contract as it is then. It names the run that it
// pauses, as the next two do.
func (c Operator) PauseContract(ctx context.Context, contract string) (*swarmv1.ContractView, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return nil, err
	}
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.ContractServiceClient.PauseContract, &swarmv1.PauseContractRequest{Contract: contract, Run: run})
	return res.GetContract(), err
}

// ResumeContract ends a pause.
func (c Operator) ResumeContract(ctx context.Context, contract string) (*swarmv1.ContractView, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return nil, err
	}
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.ContractServiceClient.ResumeContract, &swarmv1.ResumeContractRequest{Contract: contract, Run: run})
	return res.GetContract(), err
}

// EndContract makes the next round of a contract the final one.
func (c Operator) EndContract(ctx context.Context, contract string) (*swarmv1.ContractView, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return nil, err
	}
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.ContractServiceClient.EndContract, &swarmv1.EndContractRequest{Contract: contract, Run: run})
	return res.GetContract(), err
}

// runOf returns the run that a contract is in; 0: there is no such contract.
func (c Operator) runOf(ctx context.Context, contract string) (uint64, error) {
	all, err := c.ListContracts(ctx)
	if err != nil {
		return 0, err
	}
	for _, x := range all.GetContracts() {
		if x.GetName() == contract {
			return x.GetRun(), nil
		}
	}
	return 0, nil
}

// ForgetNode frees the name of a dead node.
func (c Operator) ForgetNode(ctx context.Context, name string) error {
	_, err := ordered(ctx, c, callOptions{}, swarmv1connect.NodeServiceClient.ForgetNode, &swarmv1.ForgetNodeRequest{Name: name})
	return err
}

// BanNode shuts the key of a node out, named by the node or by its peer ID, and returns the ban. A key that is banned
// already keeps its first ban.
func (c Operator) BanNode(ctx context.Context, name, reason string) (*swarmv1.Ban, error) {
	// An SN does not ban itself, so another one must be known.
	if _, err := c.GetSwarm(ctx); err != nil {
		return nil, err
	}
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.NodeServiceClient.BanNode, &swarmv1.BanNodeRequest{Name: name, Reason: reason})
	return res.GetBan(), err
}

// UnbanNode lets a node key in again, named as for BanNode or as it was when it was banned.
func (c Operator) UnbanNode(ctx context.Context, name string) error {
	_, err := ordered(ctx, c, callOptions{}, swarmv1connect.NodeServiceClient.UnbanNode, &swarmv1.UnbanNodeRequest{Name: name})
	return err
}

// AdmitNode lets a node key join as the SN of a name.
func (c Operator) AdmitNode(ctx context.Context, name, peerID string) error {
	_, err := ordered(ctx, c, callOptions{}, swarmv1connect.NodeServiceClient.AdmitNode, &swarmv1.AdmitNodeRequest{Name: name, PeerId: peerID})
	return err
}

// InviteNode lets the first node key that claims the invitation of a public key join as the SN of a name that bears a SPIFFE ID, until a time
// in Unix milliseconds. It returns the invitation's number in the swarm. Repeating it with the same key does no harm.
func (c Operator) InviteNode(ctx context.Context, name, spiffeID string, key []byte, expiresMS int64) (uint64, error) {
	req := &swarmv1.InviteNodeRequest{Name: name, SpiffeId: spiffeID, Key: key, ExpiresUnixMs: expiresMS}
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.NodeServiceClient.InviteNode, req)
	return res.GetNumber(), err
}

// StartProbe lets the swarm's nodes probe each other, and returns the probe's number.
func (c Operator) StartProbe(ctx context.Context) (uint64, error) {
	res, err := call(ctx, c.Client, callOptions{once: true}, swarmv1connect.SwarmServiceClient.StartProbe, &swarmv1.StartProbeRequest{})
	return res.GetRun(), err
}

// GetProbe returns what the last probe has found so far.
func (c Operator) GetProbe(ctx context.Context) (*swarmv1.GetProbeResponse, error) {
	return call(ctx, c.Client, callOptions{}, swarmv1connect.SwarmServiceClient.GetProbe, &swarmv1.GetProbeRequest{})
}

// GetRights returns the rights of the swarm; nil: nobody has set any.
func (c Operator) GetRights(ctx context.Context) (*swarmv1.Rights, error) {
	res, err := call(ctx, c.Client, callOptions{}, swarmv1connect.RightsServiceClient.GetRights, &swarmv1.GetRightsRequest{})
	return res.GetRights(), err
}

// SetRights replaces the rights of the swarm and returns them as they are understood. Repeating it does no harm.
func (c Operator) SetRights(ctx context.Context, sentences []string) (*swarmv1.Rights, error) {
	res, err := ordered(ctx, c, callOptions{}, swarmv1connect.RightsServiceClient.SetRights, &swarmv1.SetRightsRequest{Sentences: sentences})
	return res.GetRights(), err
}

// ExplainRight returns whether somebody may do something, and which sentence decides. Without a SPIFFE ID it is asked of the caller.
func (c Operator) ExplainRight(ctx context.Context, r *swarmv1.ExplainRightRequest) (*swarmv1.ExplainRightResponse, error) {
	return call(ctx, c.Client, callOptions{}, swarmv1connect.RightsServiceClient.ExplainRight, r)
}

// GetRecentStatus is GetContractStatus with the newest rounds alone, at most that number of them.
func (c Operator) GetRecentStatus(ctx context.Context, contract string, most uint32) (*swarmv1.GetContractStatusResponse, error) {
	req := &swarmv1.GetContractStatusRequest{Contract: contract, Most: most}
	return call(ctx, c.Client, callOptions{}, swarmv1connect.ContractServiceClient.GetContractStatus, req)
}

// GetHistory returns what SNs have kept of a contract's rounds.
func (c Operator) GetHistory(ctx context.Context, q *swarmv1.GetHistoryRequest) (*swarmv1.GetHistoryResponse, error) {
	return call(ctx, c.Client, callOptions{}, swarmv1connect.ContractServiceClient.GetHistory, q)
}

// GetHistoryAfter returns the first ones of the rounds behind one that SNs have kept, so many at most.
func (c Operator) GetHistoryAfter(ctx context.Context, contract string, after uint64, most uint32) (*swarmv1.GetHistoryResponse, error) {
	return c.GetHistory(ctx, &swarmv1.GetHistoryRequest{Contract: contract, After: after, Most: most})
}
