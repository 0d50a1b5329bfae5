package chaos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/chaos"
)

// story writes what SNs and programs would: two rounds of two peers, which a test then bends.
type story struct {
	*chaos.Story
	t      *testing.T
	head   ledger.Head
	lines  [][]byte
	events map[string][]map[string]any
	models []string // digests of rounds 1 and 2
	base   []byte   // the model of round 2
}

func newStory(t *testing.T) *story {
	t.Helper()
	dir := t.TempDir()
	made, err := chaos.NewStory(dir, 300)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"models", "sn-1", "sn-2"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := &story{Story: made, t: t, events: map[string][]map[string]any{}}
	s.record(ledger.Swarm{SwarmID: "s"})
	digest := ""
	for round := uint64(0); round < 2; round++ {
		for _, peer := range []string{"sl-1", "sl-2"} {
			s.tell(peer, "offer", round, digest)
		}
		if s.base, digest, err = s.Mean(round, s.base, "sl-1", "sl-2"); err != nil {
			t.Fatal(err)
		}
		s.models = append(s.models, digest)
		s.record(s.round(round+1, digest))
		for _, peer := range []string{"sl-1", "sl-2"} {
			s.tell(peer, "took", round+1, digest)
		}
	}
	return s
}

func (s *story) round(number uint64, digest string) ledger.Round {
	return ledger.Round{Contract: "c", Run: 1, Round: number, Model: digest, Shards: []string{}, Participants: []ledger.Participant{chaos.Part("sl-1", "of sl-1"), chaos.Part("sl-2", "of sl-2")}}
}

func (s *story) record(b ledger.Body) {
	s.t.Helper()
	line, head, err := ledger.Append(s.head, int64(1000+len(s.lines)), b)
	if err != nil {
		s.t.Fatal(err)
	}
	s.head, s.lines = head, append(s.lines, line)
}

func (s *story) tell(peer, what string, round uint64, digest string) {
	s.events[peer] = append(s.events[peer], map[string]any{
		"at_ms": 1000 + len(s.lines), "what": what, "contract": "c", "session": "of " + peer, "round": round, "digest": digest, "contributed": what == "took",
	})
}

// judged writes all to files, first one record and no event, and returns what the judge finds.
func (s *story) judged() string {
	s.t.Helper()
	for upTo := range []int{1, len(s.lines)} {
		for _, sn := range []string{"sn-1", "sn-2"} {
			s.write(filepath.Join(s.Dir, sn, "ledger.jsonl"), bytes.Join(s.lines[:1+upTo*(len(s.lines)-1)], nil))
		}
		if upTo == 1 {
			s.writeEvents()
		}
		if _, err := s.Look(); err != nil {
			s.t.Fatal(err)
		}
	}
	found, err := s.Look()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(found, "\n")
}

func (s *story) writeEvents() {
	s.t.Helper()
	for peer, all := range s.events {
		var text bytes.Buffer
		for _, e := range all {
			if err := json.NewEncoder(&text).Encode(e); err != nil {
				s.t.Fatal(err)
			}
		}
		s.write(filepath.Join(s.Dir, peer+".events"), text.Bytes())
	}
}

func (s *story) write(path string, b []byte) {
	s.t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestJudgeAcceptsWhatIsRight(t *testing.T) {
	s := newStory(t)
	if found := s.judged(); found != "" {
		t.Fatal(found)
	}
	if rounds, taken := s.Computed(); rounds != 2 || taken != 4 {
		t.Errorf("%d rounds computed and %d models found, want 2 and 4", rounds, taken)
	}
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	other := strings.Repeat("ab", 32)
	for name, test := range map[string]struct {
		bend func(s *story)
		want string
	}{
		"digest of a round": {func(s *story) { s.record(s.round(3, other)) }, "what its participants offered makes"},
		"weight": {func(s *story) {
			r := s.round(3, other)
			r.Participants[0].Weight++
			s.record(r)
		}, "its program said"},
		"weight 0 of who trains on": {func(s *story) {
			r := s.round(3, other)
			r.Participants[0].Weight = 0
			s.tell("sl-1", "offer", 2, s.models[1])
			s.record(r)
		}, "the weight of sl-1 is 0"},
		"nobody offered": {func(s *story) {
			r := s.round(3, other)
			r.Participants[0].Session = "another"
			s.record(r)
		}, "whose program offered none"},
		"number of a round":  {func(s *story) { s.record(s.round(2, s.models[1])) }, "committed after round 2"},
		"another model":      {func(s *story) { s.events["sl-1"][3]["digest"] = other }, "took another model for round 2"},
		"a model of nowhere": {func(s *story) { s.events["sl-1"][1]["round"], s.events["sl-1"][3]["round"] = 0, 1 }, "which the ledger skips"},
		"round twice":        {func(s *story) { s.tell("sl-1", "took", 2, s.models[1]) }, "was given round 2 after round 2"},
		"contributed":        {func(s *story) { s.events["sl-2"][3]["contributed"] = false }, "was told that contributed is false"},
		"old base":           {func(s *story) { s.events["sl-2"] = s.events["sl-2"][:2] }, "trained from round 0, which is not the one before"},
		"slot": {func(s *story) {
			s.tell("sl-1", "wrong", 3, other)
			s.events["sl-1"][4]["detail"] = "the slot of round 3"
		}, "sl-1: the slot of round 3"},
		"all models lost": {func(s *story) { s.record(ledger.LostModel{Contract: "c", Run: 1, Round: 2, Model: s.models[1]}) }, "and all older ones"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			test.bend(s)
			if found := s.judged(); !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

// TestJudgeLeavesOutWhatCountsNothing has a peer that ended, and whose last offer two owners may have leaves of.
func TestJudgeLeavesOutWhatCountsNothing(t *testing.T) {
	s := newStory(t)
	s.tell("sl-1", "offer", 2, s.models[1])
	s.events["sl-1"][4]["final"] = true
	s.tell("sl-2", "offer", 2, s.models[1])
	_, digest, err := s.Mean(2, s.base, "sl-2")
	if err != nil {
		t.Fatal(err)
	}
	r := s.round(3, digest)
	r.Participants[0].Weight = 0
	s.record(r)
	if found := s.judged(); found != "" {
		t.Error(found)
	}
	if rounds, _ := s.Computed(); rounds != 3 {
		t.Errorf("%d rounds computed, want 3", rounds)
	}
}

// TestJudgeComparesLedgers has one SN write a record of its own, and another lose its disk and get it back.
func TestJudgeComparesLedgers(t *testing.T) {
	s := newStory(t)
	if found := s.judged(); found != "" {
		t.Fatal(found)
	}
	file := filepath.Join(s.Dir, "sn-2", "ledger.jsonl")
	for _, lines := range []int{0, 1, len(s.lines)} {
		s.write(file, bytes.Join(s.lines[:lines], nil))
		if found, err := s.Look(); err != nil || len(found) > 0 {
			t.Fatalf("after %d lines: %v %v", lines, found, err)
		}
	}
	s.record(s.round(3, s.models[1]))
	mine := s.lines[len(s.lines)-1]
	s.write(file, append(bytes.Join(s.lines[:len(s.lines)-1], nil), bytes.Replace(mine, []byte(`"round":3`), []byte(`"round":4`), 1)...))
	s.write(filepath.Join(s.Dir, "sn-1", "ledger.jsonl"), bytes.Join(s.lines, nil))
	found, err := s.Look()
	if want := "record 4 of sn-2 is not that of the other SNs"; err != nil || !strings.Contains(fmt.Sprint(found), want) {
		t.Errorf("%v, %v, want %q", found, err, want)
	}
}

// TestJudgeGoesOnFromWhatWasChangedOnPurpose can't compute a round whose offer was garbled, and the next from its model it can.
func TestJudgeGoesOnFromWhatWasChangedOnPurpose(t *testing.T) {
	s := newStory(t)
	garbled := s.Offer("sl-1", 77, nil)
	s.write(filepath.Join(s.Dir, "models", s.Digest(garbled)), garbled)
	s.tell("sl-1", "offer", 2, s.models[1])
	s.tell("sl-2", "offer", 2, s.models[1])
	s.Taint("sl-1", 1000+int64(len(s.lines)))
	s.record(s.round(3, s.Digest(garbled)))
	_, digest, err := s.Mean(3, garbled, "sl-1", "sl-2")
	if err != nil {
		t.Fatal(err)
	}
	for _, peer := range []string{"sl-1", "sl-2"} {
		s.tell(peer, "took", 3, s.Digest(garbled))
		s.tell(peer, "offer", 3, s.Digest(garbled))
	}
	s.Clean("sl-1", 1000+int64(len(s.lines))-1)
	s.record(s.round(4, digest))
	if found := s.judged(); found != "" {
		t.Error(found)
	}
	if rounds, _ := s.Computed(); rounds != 3 {
		t.Errorf("%d rounds computed, want 3", rounds)
	}
}
