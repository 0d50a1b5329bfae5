package state_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestReplay holds that a random log, with many commands that are rejected, gives the same bytes when it is applied at
// once and when it is cut by a snapshot, that no step breaks an invariant, and that no state changes after it was returned.
func TestReplay(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cut := 20 + rng.IntN(200)
		s, restored := state.New(), (*state.State)(nil)
		for i := range 250 {
			line := randomLine(rng, s)
			c := viaLog(t, parseCommand(t, s, line, int64(i)))
			before := encode(t, s)
			next, result, err := s.Apply(c)
			if err == nil && result.Changed {
				kinds[c.Type()]++
			}
			if err != nil && state.ReasonOf(err) == "" {
				t.Fatalf("seed %d step %d %q: %v", seed, i, line, err)
			}
			if got := encode(t, s); got != before {
				t.Fatalf("seed %d step %d %q changed the state that it was applied to", seed, i, line)
			}
			if err := state.Check(next); err != nil {
				t.Fatalf("seed %d step %d %q: %v", seed, i, line, err)
			}
			s = next
			if restored != nil {
				if restored, _, err = restored.Apply(c); err != nil && state.ReasonOf(err) == "" {
					t.Fatal(err)
				}
			}
			if i == cut {
				if restored, err = state.DecodeSnapshot([]byte(encode(t, s))); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, i, err)
				}
			}
		}
		if diff := cmp.Diff(encode(t, s), encode(t, restored)); diff != "" {
			t.Fatalf("seed %d: the restored history differs:\n%s", seed, diff)
		}
	}
	for _, kind := range []string{
		"register_node", "forget_node", "set_live", "open_session", "close_session", "end_session", "plan_round",
		"cancel_plan", "commit_round", "finish_contract", "reset_contract", "ban_node", "unban_node", "leave_node", "lose_model", "skip_round",
	} {
		if kinds[kind] < 20 {
			t.Errorf("only %d accepted commands of type %s", kinds[kind], kind)
		}
	}
}

// randomLine makes a command that has a fair chance to be accepted in the given state.
func randomLine(rng *rand.Rand, s *state.State) string {
	c := s.Contracts[state.DefaultContract]
	node := fmt.Sprintf("sl-%d", rng.IntN(4))
	session := fmt.Sprint(1 + rng.IntN(400))
	if active := c.Active(); len(active) > 0 && rng.IntN(5) > 0 {
		session = active[rng.IntN(len(active))].ID
	}
	with := ""
	for _, a := range c.Active() {
		if rng.IntN(8) > 0 {
			if with != "" {
				with += ","
			}
			with += a.ID
		}
	}
	switch rng.IntN(26) {
	case 0, 1:
		return "register " + node
	case 2:
		return "forget " + node
	case 3:
		return "dead " + node
	case 4, 5:
		return "live " + node
	case 6, 7, 8:
		return fmt.Sprintf("open %d node=%s min=%d layout=%c", 1+rng.IntN(400), node, 1+rng.IntN(2), "aaab"[rng.IntN(4)])
	case 9:
		return "close " + session
	case 10:
		return "end " + session + " reason=crashed"
	case 11, 12, 13, 14:
		return fmt.Sprintf("plan with=%s final=%t allotted=%t", with, c.FinalDue() && rng.IntN(3) > 0, rng.IntN(5) > 0)
	case 15:
		return "cancel"
	case 16, 17:
		return "commit"
	case 18, 25:
		return "finish"
	case 21:
		return "leave " + node
	case 22:
		return fmt.Sprintf("lose to=%d", rng.IntN(2))
	case 23, 24:
		return fmt.Sprintf("skip of=%s seq=%d", session, c.Round()+1+uint64(rng.IntN(2)))
	case 20:
		if rng.IntN(3) > 0 {
			return "unban key-" + node
		}
		return "ban key-" + node
	default:
		return fmt.Sprintf("reset force=%t", rng.IntN(3) == 0)
	}
}

// viaLog encodes and decodes a command, as raft does.
func viaLog(t *testing.T, c state.Command) state.Command {
	t.Helper()
	b, err := state.EncodeCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := state.DecodeCommand(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Fatalf("command changed in the log:\n%s", diff)
	}
	return got
}

func encode(t *testing.T, s *state.State) string {
	t.Helper()
	b, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
