package planner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// chain gives out records in pieces of two, as Group.ReadLedger does in larger ones.
func chain(t *testing.T, bodies ...ledger.Body) func(uint64) ([]byte, error) {
	t.Helper()
	pieces, head := map[uint64][]byte{}, ledger.Head{}
	for i, body := range bodies {
		start := head.Bytes
		line, next, err := ledger.Append(head, 1, body)
		if err != nil {
			t.Fatal(err)
		}
		if head = next; i%2 == 1 {
			for at := range pieces {
				if at+uint64(len(pieces[at])) == start {
					start = at
				}
			}
		}
		pieces[start] = append(pieces[start], line...)
	}
	return func(offset uint64) ([]byte, error) { return pieces[offset], nil }
}

func committedBody(contract string, run, round uint64) ledger.Round {
	return ledger.Round{Contract: contract, Run: run, Round: round, Attempt: 1, Model: fmt.Sprintf("%064x", round), Shards: []string{}, Participants: []ledger.Participant{}}
}

// TestLostModelIsLookedUp: a new leader, which saw no round committed, goes back to what the ledger has and not to what most say.
func TestLostModelIsLookedUp(t *testing.T) {
	const begun = contractName
	rounds := func(from, to uint64) (out []ledger.Body) {
		for r := from; r <= to; r++ {
			out = append(out, committedBody(begun, 1, r))
		}
		return out
	}
	tests := []struct {
		name   string
		ledger func(uint64) ([]byte, error)
		want   uint64 // the round that is resumed
	}{
		{"no ledger", nil, 3},
		{"a ledger", chain(t, rounds(1, 4)...), 1},
		{"one that began later", chain(t, rounds(3, 4)...), 2},
		{"one that can't be read", func(uint64) ([]byte, error) { return nil, errors.New("not complete") }, 3},
		{"one that is broken", func(uint64) ([]byte, error) { return []byte("{}\n"), nil }, 3},
		{"of another run and contract", chain(t, committedBody(begun, 2, 3), committedBody("other", 1, 3)), 3},
		{"with a step back", chain(t, append(rounds(1, 2), ledger.LostModel{Contract: begun, Run: 1, Round: 2, Resumed: 1}, committedBody(begun, 1, 4))...), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				for _, p := range s.peers {
					s.do(p.open)
				}
				for r := uint64(1); r <= 4; r++ {
					parts := []state.Participant{{Session: s.peers[0].session, Node: "sl-0", Weight: 1, Seq: r, ShardLeaves: 10}, {Session: s.peers[1].session, Node: "sl-1", Weight: 1, Seq: r, ShardFirst: 10}}
					s.do(state.PlanRound{Contract: begun, Run: 1, Round: r, Attempt: 1, Participants: parts})
					s.do(state.CommitRound{Contract: begun, Run: 1, Round: r, Attempt: 1, Digest: fmt.Sprintf("%064x", r), NextInterval: 1})
				}
				s.config.Ledger = tt.ledger
				s.newLeader()
				forged := strings.Repeat("e", 64)
				for range 80 {
					s.run(time.Second)
					for i, p := range s.peers {
						held := []round.Model{{Round: 3, Digest: forged}, {Round: 2, Digest: forged}, {Round: 1, Digest: fmt.Sprintf("%064x", 1)}}
						s.current().Record(reports.Report{Session: p.session, Contract: begun, Run: 1, Node: p.node, Held: held[:3-i]})
					}
				}
				lost := commands[state.LoseModel](s)
				if len(lost) != 1 || lost[0].ResumedRound != tt.want {
					t.Errorf("%+v, want one that goes back to round %d", lost, tt.want)
				}
			})
		})
	}
}
