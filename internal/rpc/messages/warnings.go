package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
)

// AddWarnings adds to the answer to a node's heartbeat what is wrong with the trainings of the sessions that it reports, by what of returns
// for a contract, if the node has not seen that yet.
func AddWarnings(view *state.State, node *state.Node, m *swarmv1.ReportRequest, of func(contract string) []warning.Warning, res *swarmv1.ReportResponse) {
	sum := sha256.New()
	for _, x := range m.GetSessions() {
		c := view.Contracts[x.GetContract()]
		if c == nil || c.Run != x.GetRun() || c.Sessions[x.GetSession()] == nil || c.Sessions[x.GetSession()].Node != node.Name {
			continue
		}
		found := of(c.Name)
		if len(found) == 0 {
			continue
		}
		res.Warnings = append(res.Warnings, &swarmv1.SessionWarnings{Session: x.GetSession(), Warnings: trainingWarnings(found)})
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
