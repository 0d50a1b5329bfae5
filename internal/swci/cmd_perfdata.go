package swci

import (
	"context"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
)

func perfdataCommands() []*Command {
	return []*Command{{
		Pattern: "perfdata CONTRACT", Group: "Contracts", Shell: true,
		Summary: "Show what each peer of a training has reached",
		Details: "Prints for every SL and its program, of the contract's current run: the SL's UID as \"list nodes\" has it (its peer ID), whether it is the admin, the last loss and metric that the program has reported, and how many epochs it will train and has finished. The admin is the SL that merges the first part of the model, in the running round or else in the last one: all SLs merge here, each a part, and where the original has one leader of a merge this is the one to name. An SL that has said --make-me-admin=False is not the admin.",
		Example: "perfdata defaultbb.cqdb.sml.hpe",
		JSON:    perfdataJSON{},
		Run:     perfdata,
	}}
}

// perfdataJSON is `perfdata CONTRACT -o json`.
type perfdataJSON struct {
	Name     string        `json:"name" doc:"the contract's"`
	Run      uint64        `json:"run" doc:"number of the run, from 1"`
	Peers    []perfJSON    `json:"peers" doc:"SLs with their programs, by name"`
	NoQuorum *noQuorumJSON `json:"no_quorum" doc:"null, or that too few SNs answer the one that was asked; exit code 7 then"`
}

// perfJSON is one element of `perfdata CONTRACT -o json`.
type perfJSON struct {
	Node            string   `json:"node" doc:"the SL's name"`
	UID             string   `json:"uid" doc:"libp2p peer ID of its node key"`
	Admin           bool     `json:"admin" doc:"it merges the first part of the model"`
	Loss            *float64 `json:"loss" doc:"as the program reported it last"`
	Metric          *float64 `json:"metric" doc:"as the program reported it last"`
	TotalEpochs     uint32   `json:"total_epochs" doc:"epochs that it will train, 0 when unknown"`
	CompletedEpochs uint32   `json:"completed_epochs" doc:"epochs that it has finished"`
}

func (p perfdataJSON) words(l *lines) {
	l.row([]string{"SL_UID", "SL_ADMIN", "LOSS", "METRIC", "TOTAL_EPOCHS", "COMPLETED_EPOCHS"})
	for _, x := range p.Peers {
		admin := "FALSE"
		if x.Admin {
			admin = "TRUE"
		}
		l.row([]string{x.UID, admin, number(x.Loss), number(x.Metric), utoa(uint64(x.TotalEpochs)), utoa(uint64(x.CompletedEpochs))})
	}
}

func perfdata(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("CONTRACT")
		status, err := api.GetContractStatus(ctx, name)
		if err != nil {
			return fmt.Errorf("get performance data of %q: %w", name, err)
		}
		out := perfdataOf(status)
		err = s.show(out, func() error {
			t := table{header: []string{"NODE", "ADMIN", "LOSS", "METRIC", "EPOCHS", "UID"}}
			for _, x := range out.Peers {
				t.add(x.Node, yesNo(x.Admin), number(x.Loss), number(x.Metric), epochs(x.CompletedEpochs, x.TotalEpochs), x.UID)
			}
			return t.print(s.Env.Stdout)
		})
		if err != nil {
			return err
		}
		if err := s.shown(status.GetNoQuorum()); err != nil {
			return fmt.Errorf("get performance data of %q: %w", name, err)
		}
		return nil
	})
}

// perfdataOf reads a contract's status. Of a node's sessions in the run only the last one counts.
func perfdataOf(st *swarmv1.GetContractStatusResponse) perfdataJSON {
	c := st.GetContract()
	out := perfdataJSON{Name: c.GetName(), Run: c.GetRun(), Peers: []perfJSON{}, NoQuorum: noQuorumToJSON(st.GetNoQuorum())}
	var last []*swarmv1.Session
	for _, x := range byNode(c.GetSessions()) {
		switch n := len(last); {
		case x.GetRun() != c.GetRun():
		case n > 0 && last[n-1].GetNode() == x.GetNode():
			last[n-1] = x
		default:
			last = append(last, x)
		}
	}
	admin := adminOf(c, last)
	for _, x := range last {
		j := sessionToJSON(x)
		out.Peers = append(out.Peers, perfJSON{j.Node, x.GetPeerId(), j.Node == admin, j.Loss, j.Metric, j.TotalEpochs, j.EpochsDone})
	}
	return out
}

// adminOf names the node that merges the first part of the model, of those with the given sessions; "" before the first round.
func adminOf(c *swarmv1.ContractView, sessions []*swarmv1.Session) string {
	for _, p := range c.GetPlan().GetParticipants() {
		if p.GetShardFirst() == 0 && p.GetShardLeaves() > 0 {
			return p.GetNode()
		}
	}
	opted := map[string]bool{}
	for _, x := range sessions {
		opted[x.GetNode()] = x.GetNoShard()
	}
	for _, name := range c.GetCommitted().GetParticipants() {
		if out, known := opted[name]; known && !out {
			return name
		}
	}
	return ""
}
