package top

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

const contract = "defaultbb.cqdb.sml.hpe"

// stages of the recorded training: when each was recorded, and its last round.
var stages = map[string]struct {
	at    string
	until int
}{
	"waiting": {"2026-11-28T01:35:54Z", 0}, "training": {"2026-11-28T01:36:01Z", 35}, "trouble": {"2026-11-28T01:36:28Z", 61}, "done": {"2026-11-28T01:36:42Z", 1 << 30},
}

// fixture reads a document that was recorded from a swarm.
func fixture(t *testing.T, elem ...string) json.RawMessage {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"../../../web/test/fixtures"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// recorded are the documents at a stage of the recorded training.
func recorded(t *testing.T, stage string) map[string]json.RawMessage {
	t.Helper()
	docs := map[string]json.RawMessage{
		"swarm": json.RawMessage(`{"swarm_id":"6d9b1f9c0c9e4a57b1f0","epoch":1,"leader":"sn-1","context":"","rights":[]}`),
	}
	for name, file := range map[string]string{"nodes": "nodes", "health": "health", "contracts": "contracts", "contract/" + contract: "contract", "explain/" + contract: "explain"} {
		docs[name] = fixture(t, stage, file+".json")
	}
	var h map[string]any
	if err := json.Unmarshal(fixture(t, "history.json"), &h); err != nil {
		t.Fatal(err)
	}
	rounds := h["rounds"].([]any)
	h["rounds"] = rounds[:min(stages[stage].until, len(rounds))]
	var err error
	if docs["history/"+contract], err = json.Marshal(h); err != nil {
		t.Fatal(err)
	}
	return docs
}

// shownAt is a screen of a size that has taken documents.
func shownAt(t *testing.T, docs map[string]json.RawMessage, at string, width, height int) (s *screen, now *time.Time) {
	t.Helper()
	clock, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	s = newScreen(Config{Now: func() time.Time { return clock }}, func(name string) answer {
		name, _, _ = strings.Cut(name, "?")
		if value, ok := docs[name]; ok {
			return answer{name: name, value: value, sn: "sn-1"}
		}
		return answer{name: name, sn: "sn-1", err: "there is no " + name, remedy: "swarmctl list contracts shows those that there are"}
	})
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	settle(t, s, tea.Batch(s.questions()...))
	clock = clock.Add(3 * time.Second)
	return s, &clock
}

// settle has all questions answered that a command asks, and those that follow.
func settle(t *testing.T, s *screen, cmd tea.Cmd) {
	t.Helper()
	for cmds := []tea.Cmd{cmd}; len(cmds) > 0; cmds = cmds[1:] {
		if cmds[0] == nil {
			continue
		}
		switch msg := cmds[0]().(type) {
		case tea.BatchMsg:
			cmds = append(cmds, msg...)
		case answer:
			_, next := s.Update(msg)
			cmds = append(cmds, next)
		}
	}
}

// same holds a screen to its golden file, and to its size.
func same(t *testing.T, name string, s *screen) {
	t.Helper()
	got := s.draw()
	lines := strings.Split(got, "\n")
	if len(lines) > s.height {
		t.Errorf("%s has %d lines in a terminal of %d", name, len(lines), s.height)
	}
	for _, line := range lines {
		if n := ansi.StringWidth(line); n > s.width {
			t.Errorf("%s: %d columns in a terminal of %d: %q", name, n, s.width, line)
		}
	}
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestViews: of the recorded swarm at each stage, in small terminals and large ones.
func TestViews(t *testing.T) {
	for stage, of := range stages {
		for _, size := range []struct {
			name          string
			width, height int
		}{{"80x24", 80, 24}, {"120x40", 120, 40}, {"40x15", 40, 15}} {
			s, _ := shownAt(t, recorded(t, stage), of.at, size.width, size.height)
			same(t, stage+"_"+size.name, s)
		}
	}
}

// TestViewsWithoutATraining: a swarm without contracts, one of which nothing is known yet, and one that can't be asked any more.
func TestViewsWithoutATraining(t *testing.T) {
	docs := recorded(t, "waiting")
	docs["contracts"] = json.RawMessage(`{"contracts":[],"no_quorum":null}`)
	s, _ := shownAt(t, docs, stages["waiting"].at, 80, 24)
	same(t, "empty_80x24", s)

	s, _ = shownAt(t, nil, stages["waiting"].at, 80, 24)
	same(t, "refused_80x24", s)

	s, now := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	for range 2 {
		s.Update(answer{name: "nodes", sn: "sn-2", lost: "no SN answers: 127.0.41.1:30304: connection refused; 127.0.41.2:30304: connection refused", remedy: "start an SN, or give the address of another one with --sn"})
		*now = now.Add(8 * time.Second)
	}
	same(t, "stale_80x24", s)
	s.Update(answer{name: "nodes", value: docs["nodes"], sn: "sn-2"}.reading())
	if got := s.draw(); !strings.Contains(got, "live for 0 s") || !strings.Contains(got, "SN asked") || strings.Contains(got, "refused") {
		t.Errorf("once it is asked again:\n%s", got)
	}
}

// TestSilence: while questions have no answer yet, the screen does not call itself live.
func TestSilence(t *testing.T) {
	s, now := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	left := s.draw()
	*now = now.Add(5 * time.Second)
	if got := s.draw(); strings.Contains(got, "live") || !strings.Contains(got, "no answer for 8 s") || !strings.Contains(left, "about 15 s left") || !strings.Contains(got, "about 15 s left") {
		t.Errorf("without an answer:\n%s", got)
	}
	s.Update(answer{name: "swarm", value: json.RawMessage(`{}`), sn: "sn-1"}.reading())
	if got := s.draw(); !strings.Contains(got, "live") {
		t.Errorf("with an answer:\n%s", got)
	}
}

// TestHelp: the keys, and what words mean.
func TestHelp(t *testing.T) {
	s, _ := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	press(t, s, "?")
	same(t, "help_80x24", s)
	press(t, s, "esc")
	if !strings.Contains(s.draw(), "epochs") {
		t.Error("help does not end")
	}
}

// press has keys pressed, and what they ask answered.
func press(t *testing.T, s *screen, keys ...string) (quits bool) {
	t.Helper()
	codes := map[string]tea.KeyPressMsg{
		"tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "esc": {Code: tea.KeyEscape}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, key := range keys {
		msg, named := codes[key]
		if !named {
			msg = tea.KeyPressMsg{Code: rune(key[0]), Text: key}
		}
		_, cmd := s.Update(msg)
		if cmd == nil {
			continue
		}
		if _, quits = cmd().(tea.QuitMsg); !quits {
			settle(t, s, cmd)
		}
	}
	return quits
}

// TestKeys: contracts in turn, scrolling within bounds, and the end.
func TestKeys(t *testing.T) {
	docs := recorded(t, "trouble")
	docs["contracts"] = json.RawMessage(`{"contracts":[{"name":"a","phase":"completed"},{"name":"` + contract + `","phase":"training","open_sessions":2},{"name":"z","phase":"uninitialised"}]}`)
	docs["contract/a"] = json.RawMessage(`{"name":"a","run":1,"phase":"completed","over":true,"sessions":[]}`)
	s, _ := shownAt(t, docs, stages["trouble"].at, 80, 15)
	for _, step := range []struct{ key, shows string }{{"", contract}, {"tab", "z"}, {"right", "a"}, {"left", "z"}, {"shift+tab", contract}, {"shift+tab", "a"}} {
		if step.key != "" {
			press(t, s, step.key)
		}
		if s.contract != step.shows || !strings.Contains(ansi.Strip(s.draw()), "contract "+step.shows) {
			t.Fatalf("after %q contract %q is shown:\n%s", step.key, s.contract, s.draw())
		}
		if docs["contract/"+step.shows] != nil && s.known.status == nil {
			t.Errorf("after %q nothing is asked about contract %q", step.key, s.contract)
		}
	}
	press(t, s, "tab")
	all := len(s.body())
	for _, step := range []struct {
		key  string
		from int
	}{{"up", 0}, {"down", 1}, {"down", 2}, {"up", 1}, {"end", all - s.room()}, {"down", all - s.room()}, {"pgup", max(0, all-2*s.room())}, {"home", 0}, {"pgdown", min(s.room(), all-s.room())}} {
		if press(t, s, step.key); s.offset != step.from {
			t.Errorf("after %s the first line is %d, want %d", step.key, s.offset, step.from)
		}
	}
	for _, key := range []string{"q", "ctrl+c"} {
		if !press(t, s, key) {
			t.Errorf("%s does not quit", key)
		}
	}
}

// TestPause: nothing is asked while it is paused, and all at once afterwards.
func TestPause(t *testing.T) {
	s, now := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	press(t, s, "p")
	*now = now.Add(time.Minute)
	if len(s.questions()) != 0 || !strings.Contains(s.draw(), "PAUSED for 60 s") {
		t.Errorf("paused, it asks:\n%s", s.draw())
	}
	press(t, s, "p")
	if strings.Contains(s.draw(), "PAUSED") || s.asked["nodes"].due.Before(*now) {
		t.Error("it does not go on")
	}
}

// TestTabWhilePaused: what is shown stays, as nothing is asked about another contract, and the screen says what to do.
func TestTabWhilePaused(t *testing.T) {
	docs := recorded(t, "training")
	docs["contracts"] = json.RawMessage(`{"contracts":[{"name":"` + contract + `","phase":"training","open_sessions":2},{"name":"z"}]}`)
	s, _ := shownAt(t, docs, stages["training"].at, 80, 24)
	for _, key := range []string{"tab", "left"} {
		press(t, s, "p", key)
		if got := ansi.Strip(s.draw()); s.contract != contract || !strings.Contains(got, "contract "+contract) || !strings.Contains(got, "10/60") || !strings.Contains(got, "PAUSED for 0 s: p goes on, then tab") {
			t.Errorf("%s while it is paused:\n%s", key, got)
		}
		press(t, s, "p")
		if got := ansi.Strip(s.draw()); strings.Contains(got, "then tab") || strings.Contains(got, "PAUSED") {
			t.Errorf("it goes on:\n%s", got)
		}
	}
	press(t, s, "tab")
	if s.contract != "z" {
		t.Errorf("%s is shown", s.contract)
	}
}

// TestQuestions: each document every two seconds, not again before there is an answer, and no more at a time than four.
func TestQuestions(t *testing.T) {
	s, now := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	if n := len(s.questions()); n != maxAsking {
		t.Errorf("%d questions at a time, want %d", n, maxAsking)
	}
	*now = now.Add(time.Minute)
	if n := len(s.questions()); n != 0 {
		t.Errorf("%d more without an answer", n)
	}
	s.Update(answer{name: "swarm", value: json.RawMessage(`{}`), sn: "sn-1"}.reading())
	if busy := asking(s); busy != maxAsking {
		t.Errorf("%d are under way after an answer, want %d", busy, maxAsking)
	}
}

func asking(s *screen) (n int) {
	for _, a := range s.asked {
		if a.asking {
			n++
		}
	}
	return n
}

// TestSlowAnswers: where each takes longer than the time between two questions, all documents are asked for all the same.
func TestSlowAnswers(t *testing.T) {
	s, now := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	turns := map[string]int{}
	for range 200 {
		s.questions()
		*now = now.Add(period + period/20)
		for _, name := range s.names() {
			if s.asked[name].asking {
				turns[name]++
				s.Update(answer{name: name, sn: "sn-1", err: "none"})
			}
		}
	}
	for _, name := range s.names() {
		if turns[name] < 50 {
			t.Errorf("%s was asked for %d times", name, turns[name])
		}
	}
}

// TestOneDocumentIsNotTheSwarm: what fails while the swarm and its nodes are told does not make the screen stale.
func TestOneDocumentIsNotTheSwarm(t *testing.T) {
	s, _ := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	s.Update(answer{name: "nodes", sn: "sn-1", lost: "no SN has a leader", remedy: "wait"})
	for _, name := range []string{"swarm", "contracts"} {
		s.Update(answer{name: name, sn: "sn-1", value: json.RawMessage(`{}`)}.reading())
		if got := s.draw(); !strings.Contains(got, "no SN has a leader") || strings.Contains(got, "live for") {
			t.Errorf("after an answer for %s:\n%s", name, got)
		}
	}
	s.Update(answer{name: "nodes", sn: "sn-1", value: json.RawMessage(`{}`)}.reading())
	s.Update(answer{name: "contract/" + contract, sn: "sn-1", lost: "it took too long"})
	if got := s.draw(); !strings.Contains(got, "live for") || strings.Contains(got, "it took too long") {
		t.Errorf("as one document does not come:\n%s", got)
	}
}

// TestToDoOfADeadPeer: while others train, a dead peer's remedy is shown too; words that stand in a sentence decide nothing.
func TestToDoOfADeadPeer(t *testing.T) {
	for stuck, line := range map[string]string{"true": "to do  start sl-2 again", "false": ""} {
		docs := recorded(t, "training")
		docs["contract/"+contract] = json.RawMessage(strings.Replace(string(docs["contract/"+contract]), `"stuck": false`, `"stuck": `+stuck, 1))
		docs["explain/"+contract] = json.RawMessage(`{"explanation":["a","to do: start sl-2 again"]}`)
		s, _ := shownAt(t, docs, stages["training"].at, 80, 24)
		if got := ansi.Strip(s.draw()); !strings.Contains(got, "(still training)") || strings.Contains(got, "start sl-2 again") != (line != "") || !strings.Contains(got, line) {
			t.Errorf("stuck: %s\n%s", stuck, got)
		}
	}
}

// TestStatesOfNodes: of all states that an SN may tell, also one that this release does not know, alive alone is good.
func TestStatesOfNodes(t *testing.T) {
	docs := recorded(t, "training")
	for state, want := range map[string]string{"alive": "● healthy", "left": "○ left", "dead": "× dead", "no answer": "× no answer", "banned": "× banned", "unknown": "! unknown", "isolated": "! isolated"} {
		docs["nodes"] = json.RawMessage(`{"nodes":[{"name":"sl-0","role":"sl","state":"` + state + `"}]}`)
		s, _ := shownAt(t, docs, stages["training"].at, 80, 24)
		if got := ansi.Strip(s.draw()); !strings.Contains(got, want) || strings.Contains(got, "all are well") != (state == "alive" || state == "left") {
			t.Errorf("%s:\n%s", state, got)
		}
	}
}

// TestHistoryIsAskedForOnce: then only rounds are asked for that are not known, and none while no round is committed; of another run it is all again.
func TestHistoryIsAskedForOnce(t *testing.T) {
	docs := recorded(t, "training")
	s, now := shownAt(t, docs, stages["training"].at, 80, 24)
	var asked []string
	answers := func(name string) answer {
		if strings.HasPrefix(name, "history/") {
			asked = append(asked, strings.TrimPrefix(name, "history/"+contract))
		}
		bare, after, more := strings.Cut(name, "?after=")
		bare, _, _ = strings.Cut(bare, "?")
		if !more {
			return answer{name: name, value: docs[bare], sn: "sn-1"}
		}
		return answer{name: name, sn: "sn-1", value: json.RawMessage(`{"run":1,"after":` + after + `,"rounds":[{"round":35,"loss":0.4},{"round":36,"loss":0.123,"peers":[{"node":"sl-0","sent":7777,"received":1}]}]}`)}
	}
	s.ask = answers
	passes := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); *now = now.Add(time.Second) {
			settle(t, s, tea.Batch(s.questions()...))
		}
	}
	passes(5 * time.Second)
	if len(asked) != 0 {
		t.Errorf("nothing has changed, and %q is asked", asked)
	}
	docs["contract/"+contract] = json.RawMessage(strings.Replace(string(docs["contract/"+contract]), `"committed": {
    "round": 33`, `"committed": {
    "round": 36`, 1))
	passes(4 * time.Second)
	if diff := cmp.Diff([]string{"?after=27"}, asked); diff != "" {
		t.Errorf("a round was committed (-want +got):\n%s", diff)
	}
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "2.1840 █") || !strings.Contains(got, " 0.1230\n") || !strings.Contains(got, "round 36:") || !strings.Contains(got, "7.78 kB") || !strings.Contains(got, "26.4 kB") {
		t.Errorf("it is not joined:\n%s", got)
	}
	passes(12 * time.Second)
	if diff := cmp.Diff([]string{"?after=27", "?after=28"}, asked); diff != "" {
		t.Errorf("more may have become known (-want +got):\n%s", diff)
	}
	docs["contract/"+contract] = json.RawMessage(`{"name":"` + contract + `","run":2,"phase":"training","committed":{"round":1},"sessions":[]}`)
	docs["history/"+contract] = json.RawMessage(`{"run":2,"rounds":[{"round":1,"loss":9}]}`)
	asked = nil
	passes(4 * time.Second)
	if diff := cmp.Diff([]string{"?points=300"}, asked); diff != "" || s.known.history.Run != 2 {
		t.Errorf("of another run (-want +got):\n%s", diff)
	}
}

// TestRoundsAreThinned: of a long training older rounds are left out, but those with a failed attempt, and the first stays.
func TestRoundsAreThinned(t *testing.T) {
	var k known
	take := func(value json.RawMessage) {
		h, err := document("history/c", value)
		if err != nil {
			t.Fatal(err)
		}
		k.take(h)
	}
	round := func(n, after uint64) {
		take(json.RawMessage(fmt.Sprintf(`{"run":1,"after":%d,"rounds":[{"round":%d,"failed":[%s]}]}`, after, n, map[bool]string{true: `{"reason":"it failed"}`}[n == 2])))
	}
	if round(9, 8); k.history != nil {
		t.Error("rounds are shown of which those before are not known")
	}
	take(json.RawMessage(`{"run":1,"rounds":[{"round":1}]}`))
	for n := uint64(2); n <= 5000; n++ {
		round(n, n-1)
		if len(k.history.Rounds) > 2*points {
			t.Fatalf("%d rounds are kept", len(k.history.Rounds))
		}
	}
	all := k.history.Rounds
	if all[0].Round != 1 || all[1].Round != 2 || all[len(all)-1].Round != 5000 || all[len(all)-points].Round != 5000-points+1 {
		t.Errorf("kept are %d, %d, … %d", all[0].Round, all[1].Round, all[len(all)-1].Round)
	}
}

// TestAnswerThatIsNone: what can't be read is said in its place, with what to do.
func TestAnswerThatIsNone(t *testing.T) {
	docs := recorded(t, "training")
	docs["contract/"+contract] = json.RawMessage(`{"name":5}`)
	s, _ := shownAt(t, docs, stages["training"].at, 100, 24)
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "it can't be shown: read the answer") || !strings.Contains(got, "to do  use the swarmctl of the swarm's release") {
		t.Errorf("an answer of another kind:\n%s", got)
	}
}

// TestHowFar: of the peer that is furthest its own epochs are shown, and of a training that is over what was done, and how it ended.
func TestHowFar(t *testing.T) {
	const peer = `{"node":"%s","live":true,"state":"%s","end_reason":"%s","epochs_done":%d,"total_epochs":%d}`
	one := func(node, state, end string, done, of int) string {
		return fmt.Sprintf(peer, node, state, end, done, of)
	}
	for name, c := range map[string]struct {
		facts, sessions string
		has, lacks      []string
	}{
		"totals differ":              {`"phase":"training"`, one("a", "open", "", 9, 10) + "," + one("b", "open", "", 10, 100), []string{" 50 % ", "9 of 10"}, []string{"of 100"}},
		"one knows no total":         {`"phase":"training"`, one("a", "open", "", 3, 0) + "," + one("b", "open", "", 1, 4), []string{" 25 % ", "1 of 4"}, nil},
		"none knows it":              {`"phase":"training"`, one("a", "open", "", 3, 0), []string{"3 done, of how many is not known"}, []string{"%"}},
		"nothing done":               {`"phase":"training"`, one("a", "open", "", 0, 0), []string{"none yet"}, []string{"%"}},
		"ended by an operator":       {`"phase":"completed","over":true,"halt":{"ends":true}`, one("a", "ended", "finished", 17, 60) + "," + one("b", "ended", "lost", 20, 60), []string{"epochs 20 of 60\n", "an operator has ended it"}, []string{"%", "█"}},
		"all have failed":            {`"phase":"completed","over":true`, one("a", "ended", "failed: exit code 1", 17, 60), []string{"epochs 17 of 60\n", "no program has finished it"}, []string{"%", "█"}},
		"finished":                   {`"phase":"completed","over":true`, one("a", "ended", "finished", 60, 60), []string{"epochs 60 of 60\n", "training is over\n"}, []string{"%", "█"}},
		"an earlier session of it":   {`"phase":"training"`, one("a", "ended", "lost", 50, 60) + "," + one("a", "open", "", 6, 60), []string{" 10 % ", "6 of 60"}, []string{"50 of"}},
		"what was done before it is": {`"phase":"completed","over":true`, one("a", "ended", "lost", 50, 60) + "," + one("a", "ended", "finished", 60, 60), []string{"60 of 60"}, nil},
	} {
		docs := recorded(t, "waiting")
		docs["contract/"+contract] = json.RawMessage(`{"name":"` + contract + `","run":1,` + c.facts + `,"sessions":[` + c.sessions + `]}`)
		delete(docs, "explain/"+contract)
		delete(docs, "history/"+contract)
		s, _ := shownAt(t, docs, stages["waiting"].at, 80, 24)
		_, got, _ := strings.Cut(ansi.Strip(s.draw()), "now    ")
		got, _, _ = strings.Cut(got, "PEER")
		for _, want := range c.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q in\n%s", name, not, got)
			}
		}
	}
}

// TestOldDocuments: while the swarm answers, the screen says of which documents it shows what was known before.
func TestOldDocuments(t *testing.T) {
	docs := recorded(t, "training")
	s, now := shownAt(t, docs, stages["training"].at, 80, 24)
	hangs := "contract/" + contract
	answers := func() { // all but one
		for range 10 {
			s.questions()
			for _, name := range s.names() {
				if s.asked[name].asking && name != hangs {
					s.Update(answer{name: name, value: docs[name], sn: "sn-1"}.reading())
				}
			}
			*now = now.Add(time.Second)
		}
	}
	answers()
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "live for") || !strings.Contains(got, "old    contract was known 13 s ago\n") {
		t.Errorf("a document hangs:\n%s", got)
	}
	s.Update(answer{name: hangs, lost: "it took too long", sn: "sn-1"})
	answers()
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "live for") || !strings.Contains(got, "old    contract was known 23 s ago\n") {
		t.Errorf("it is asked for again:\n%s", got)
	}
	s.show("z")
	hangs = "contract/z"
	answers()
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "old    contract has not come for 10 s") {
		t.Errorf("it never came:\n%s", got)
	}
	press(t, s, "p")
	if got := ansi.Strip(s.draw()); strings.Contains(got, "old    ") {
		t.Errorf("paused:\n%s", got)
	}
	press(t, s, "p")
	s.Update(answer{name: hangs, value: docs["contract/"+contract], sn: "sn-1"}.reading())
	if got := ansi.Strip(s.draw()); strings.Contains(got, "old    ") {
		t.Errorf("it came:\n%s", got)
	}
}

// TestContractThatIsReset: the screen says that it was reset while it was shown, and shows nothing of the run before.
func TestContractThatIsReset(t *testing.T) {
	s, _ := shownAt(t, recorded(t, "training"), stages["training"].at, 80, 24)
	s.Update(answer{name: "contract/" + contract, sn: "sn-1", value: json.RawMessage(`{"name":"` + contract + `","run":2,"phase":"uninitialised","sessions":[]}`)}.reading())
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "this is run 2, that was run 1") || strings.Contains(got, "2.1840") || strings.Contains(got, "PEER") {
		t.Errorf("reset:\n%s", got)
	}
	s.Update(answer{name: "contract/" + contract, sn: "sn-1", err: "there is no contract \"" + contract + "\"", remedy: "swarmctl list contracts shows those that there are"})
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "it can't be shown: there is no contract") || !strings.Contains(got, "to do  swarmctl list contracts") || strings.Contains(got, "run 2") {
		t.Errorf("deleted:\n%s", got)
	}
	s.Update(answer{name: "contract/" + contract, sn: "sn-1", value: json.RawMessage(`{"name":"` + contract + `","run":3,"phase":"uninitialised","sessions":[]}`)}.reading())
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "this is run 3, that was run 2") {
		t.Errorf("made anew:\n%s", got)
	}
	s.show("other")
	s.questions()
	s.Update(answer{name: "contract/other", sn: "sn-1", value: json.RawMessage(`{"name":"other","run":7}`)}.reading())
	if got := ansi.Strip(s.draw()); !strings.Contains(got, "run 7") || strings.Contains(got, "began anew") {
		t.Errorf("another one:\n%s", got)
	}
	s.show(contract)
	s.Update(answer{name: "contract/other", sn: "sn-1", value: json.RawMessage(`{"name":"other","run":9}`)}.reading())
	if s.known.status != nil {
		t.Error("an answer about a contract that is not shown is shown")
	}
}

// TestHostileText: what peers say can't reach the terminal as a command, nor break the lines, whatever the terminal's size.
func TestHostileText(t *testing.T) {
	evil := `\u001b]0;title\u0007\u001b[2J\u009b31m\u202e\r\nfake line\t` + strings.Repeat("寬", 60)
	docs := recorded(t, "trouble")
	for name, value := range docs {
		for _, old := range []string{`"sl-1"`, `"sn-1"`, `"ready"`, `"training"`, `"banned"`} {
			value = json.RawMessage(strings.ReplaceAll(string(value), old, `"`+evil+`"`))
		}
		value = json.RawMessage(strings.ReplaceAll(string(value), `"metric":`, `"metric_name":"`+evil+`","metric":`))
		docs[name] = json.RawMessage(strings.ReplaceAll(string(value), "waiting for", evil))
	}
	for width := range 130 {
		s, _ := shownAt(t, docs, stages["trouble"].at, width, 10+width/4)
		s.cfg.Color = width%2 == 0
		s.contact.lost, s.contact.remedy = "a\x1b[2Jb\nc", "\x1b]8;;x\x1b\\"
		for _, line := range strings.Split(s.draw(), "\n") {
			if ansi.StringWidth(line) > width {
				t.Fatalf("%d columns in a terminal of %d: %q", ansi.StringWidth(line), width, line)
			}
			for _, bad := range []string{"\r", "\t", "\a", "\x1b]", "\x1b[2", "\x1b[2J", "\u009b", "\u202e", "title"} {
				if bad != "\x1b[2" && strings.Contains(line, bad) {
					t.Fatalf("%q reaches the terminal: %q", bad, line)
				}
			}
		}
		if n := strings.Count(s.draw(), "\n"); n >= s.height {
			t.Fatalf("%d lines in a terminal of %d", n+1, s.height)
		}
	}
}

// TestColours: without them words are the same, and no colour is set.
func TestColours(t *testing.T) {
	s, _ := shownAt(t, recorded(t, "trouble"), stages["trouble"].at, 80, 24)
	bare := s.draw()
	if strings.Contains(bare, "\x1b[3") || strings.Contains(bare, ";3") {
		t.Errorf("colours without being asked: %q", bare)
	}
	s.cfg.Color = true
	if got := s.draw(); got == bare || ansi.Strip(got) != ansi.Strip(bare) {
		t.Error("with colours it says something else")
	}
}

// TestFigures: numbers for people.
func TestFigures(t *testing.T) {
	num := func(x float64) *float64 { return &x }
	size := func(x uint64) *uint64 { return &x }
	for got, want := range map[string]string{
		figure(nil): none, figure(num(0.123456)): "0.1235", figure(num(12.345)): "12.35", figure(num(1e-5)): "1.00e-05", figure(num(123456)): "123456",
		octets(nil): none, octets(size(999)): "999 B", octets(size(25_800)): "25.8 kB", octets(size(1 << 63)): "9.22 EB",
		rough(119 * time.Second): "119 s", rough(125 * time.Second): "2 min 5 s", rough(90 * time.Minute): "1 h 30 min", rough(72 * time.Hour): "3 days", rough(-time.Hour): "0 s",
		took(size(1 << 63)): none, took(size(1500)): "1.5 s",
		curve([]float64{1, 2, 3}, 10): "▁▄█", curve([]float64{5, 5}, 9): "▅▅", curve([]float64{1, 1, 3, 3}, 2): "▁█", curve([]float64{-1.7e308, 1.7e308}, 5): "▁█", curve(nil, 5): "",
		bar(0.5, 4): "██░░", bar(7, 2): "██",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestWarnings: a short screen has the first ones on a line each, and says how many there are besides.
func TestWarnings(t *testing.T) {
	docs := recorded(t, "training")
	docs["explain/"+contract] = json.RawMessage(`{"explanation":["a"],"training_warnings":[{"text":"one ` + strings.Repeat("long ", 50) + `"},{"text":"advice","advice":true},{"text":"two"},{"text":"three"},{"text":"four"}]}`)
	s, _ := shownAt(t, docs, stages["training"].at, 80, 24)
	got := ansi.Strip(s.draw())
	if strings.Count(got, "warns  ") != 2 || !strings.Contains(got, "and 2 more; whole: swarmctl explain contract "+contract) || strings.Contains(got, "three") || strings.Contains(got, "advice") {
		t.Errorf("warnings:\n%s", got)
	}
}

// TestMetricHasItsName: as the newest round has it that says one, else as the sessions do, and short.
func TestMetricHasItsName(t *testing.T) {
	h, status := "history/"+contract, "contract/"+contract
	said := func(doc json.RawMessage, before, name string) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(string(doc), before, fmt.Sprintf(`"metric_name":%q,%s`, name, before)))
	}
	for want, change := range map[string]func(docs map[string]json.RawMessage){
		"metric": func(map[string]json.RawMessage) {},
		"AUC":    func(docs map[string]json.RawMessage) { docs[status] = said(docs[status], `"over":`, "AUC") },
		"F1 of cla…": func(docs map[string]json.RawMessage) {
			docs[h], docs[status] = said(docs[h], `"weighted":`, "F1 of class 12 and others"), said(docs[status], `"over":`, "AUC")
		},
		"metric ": func(docs map[string]json.RawMessage) { // they differ
			docs[h], docs[status] = said(docs[h], `"weighted":`, ""), said(docs[status], `"over":`, "AUC")
		},
	} {
		docs := recorded(t, "training")
		change(docs)
		s, _ := shownAt(t, docs, stages["training"].at, 120, 40)
		got := ansi.Strip(s.draw())
		if name := strings.TrimSpace(want); !strings.Contains(got, "\n"+name+" ") || !strings.Contains(got, " "+strings.ToUpper(name)+" ") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
