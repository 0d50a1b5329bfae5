package spire

import (
	"context"
	"errors"

	"github.com/swarmd/swarmd/identity"
)

// agentSource is an identity with the agent that it comes from.
type agentSource struct {
	*identity.WorkloadSource
	agent *Agent
}

var _ identity.Provider = (*agentSource)(nil)

// OpenSource starts an agent and waits for an identity from it. cfg.Log and cfg.Role must be set; src's Socket and Explain are
// the agent's. ctx bounds only the opening. Closing the source ends the agent.
func OpenSource(ctx context.Context, cfg AgentConfig, src identity.SourceConfig) (identity.Provider, error) {
	agent, err := StartAgent(ctx, cfg)
	if err != nil {
		return nil, err
	}
	src.Socket, src.Explain = agent.Socket(), agent.Explain
	source, err := identity.OpenSource(ctx, src)
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	return &agentSource{source, agent}, nil
}

// Close ends the identity and then the agent.
func (s *agentSource) Close() error {
	return errors.Join(s.WorkloadSource.Close(), s.agent.Close())
}
