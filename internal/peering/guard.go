package peering

import (
	"context"
	"log/slog"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/trust"
)

// NewGuard returns what judges other SLs on behalf of one whose client of the API this is. It logs whose may take part with it.
func NewGuard(api *client.Client, source identity.Source, domains identity.Domains, allow pattern.List, log *slog.Logger) *trust.Guard {
	if len(allow) == 0 {
		log.Info("any SL that this node accepts may take part in merges with it: name whose may with --allow-peer", "trust_domains", domains.Names())
	} else {
		log.Info("only named SLs may take part in merges with this node", "allow_peer", allow.Strings())
	}
	return trust.New(trust.Config{
		Source: source, Domains: domains, SwarmID: api.PinnedSwarmID, Allow: allow, Ask: func(ctx context.Context, names []string) ([]*trust.Proof, error) {
			shown, err := api.GetProofs(ctx, names)
			proofs := make([]*trust.Proof, len(shown))
			for i, p := range shown {
				proofs[i] = &trust.Proof{Name: p.GetName(), Chain: p.GetChain(), Signature: p.GetSvidSignature()}
			}
			return proofs, err
		}, Doubt: api.Doubt, Log: log,
	})
}
