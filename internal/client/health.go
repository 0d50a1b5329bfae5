package client

import (
	"context"
	"sync"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

// SNHealth is what one SN said of its health and of the nodes that report to the leader, or why it said nothing.
type SNHealth struct {
	Name    string // as the swarm has it, "" for an SN of which only the address is known
	Address string
	Nodes   []*swarmv1.NodeHealth
	Err     error
}

// GetHealth asks every SN that is known, all at once and each one time: the answer of one says nothing of the others. It
// fails only when no SN tells which SNs there are.
func (c Operator) GetHealth(ctx context.Context) ([]SNHealth, error) {
	swarm, err := c.GetSwarm(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, sn := range Reachable(swarm.GetSns()) {
		names[sn.Address] = sn.Name
	}
	sns := c.SNs()
	out := make([]SNHealth, len(sns))
	var asked sync.WaitGroup
	for i, sn := range sns {
		asked.Go(func() {
			out[i] = SNHealth{Name: names[sn], Address: sn}
			out[i].Nodes, out[i].Err = c.healthOf(ctx, sn)
		})
	}
	asked.Wait()
	return out, nil
}

// healthOf asks this SN once.
func (c Operator) healthOf(ctx context.Context, sn string) ([]*swarmv1.NodeHealth, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	res, err := callAt(ctx, c.Client, sn, callOptions{}, swarmv1connect.SwarmServiceClient.GetHealth, &swarmv1.GetHealthRequest{})
	if err != nil {
		return nil, sortOut(sn, err).Error
	}
	return res.GetNodes(), nil
}
