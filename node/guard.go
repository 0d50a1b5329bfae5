package node

import (
	"log/slog"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/trust"
)

// NewGuard returns what judges other SLs on behalf of one whose client of the API this is.
func NewGuard(api *client.Client, source identity.Source, domains identity.Domains, allow pattern.List, log *slog.Logger) *trust.Guard {
	return trust.New(trust.Config{
		Source: source, Domains: domains, SwarmID: api.PinnedSwarmID, Allow: allow, Ask: api.GetProofs, Doubt: api.Doubt, Log: log,
	})
}
