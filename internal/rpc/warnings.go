package rpc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

// tellWarnings adds to the answer to a heartbeat what is wrong with the trainings of the sessions that it reports, if the node has not
// seen that yet.
func (s *sessionService) tellWarnings(view *state.State, node *state.Node, m *swarmv1.ReportRequest, res *swarmv1.ReportResponse) {
	sum := sha256.New()
	for _, x := range m.GetSessions() {
		c := view.Contracts[x.GetContract()]
		if c == nil || c.Run != x.GetRun() || c.Sessions[x.GetSession()] == nil || c.Sessions[x.GetSession()].Node != node.Name {
			continue
		}
		found := s.cfg.Lead.Warnings(c.Name)
		if len(found) == 0 {
			continue
		}
		res.Warnings = append(res.Warnings, &swarmv1.SessionWarnings{Session: x.GetSession(), Warnings: messages.TrainingWarnings(found)})
		for _, w := range found {
			fmt.Fprintf(sum, "%q %q %q\n", x.GetSession(), w.Reason, w.Node)
		}
	}
	if len(res.GetWarnings()) == 0 {
		return // the digest of nothing is empty, as what a node has seen at its start
	}
	if res.WarningsDigest = hex.EncodeToString(sum.Sum(nil)); res.WarningsDigest == m.GetWarningsSeen() {
		res.Warnings = nil
	}
}
