package ledger_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
)

var bodies = []ledger.Body{
	ledger.Swarm{SwarmID: "s"},
	ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{{1}}},
	ledger.Registration{Node: "sl-0", Role: "sl", SPIFFEID: "spiffe://a.example/swarm/sl", PeerID: "12D3", Signature: []byte{1}, Chain: [][]byte{{2}}},
	ledger.Forget{Node: "sl-0", PeerID: "12D3"},
	ledger.Round{
		Contract: "c", Run: 1, Round: 2, Attempt: 3, Method: "mean", Layout: "l", Model: "m", State: "s", Shards: []string{"x"},
		Witnessed:    ledger.Witness{Length: 4, Hash: "h"},
		Participants: []ledger.Participant{{Node: "sl-0", PeerID: "12D3", Session: "s", Weight: 5, Factor: 0.1, ShardFirst: 6, ShardLeaves: 7, Signature: []byte{8}}},
	},
	ledger.Over{Contract: "c", Run: 1, Round: 2, Model: "m"},
	ledger.Reset{Contract: "c", Run: 2},
	ledger.LostModel{Contract: "c", Run: 1, Round: 2, Model: "m", Resumed: 1},
	ledger.Ban{PeerID: "12D3", Node: "sl-0", Reason: "<why> & how", By: "spiffe://a.example/swarm/swci"},
	ledger.Unban{PeerID: "12D3"},
	ledger.Program{Contract: "c", Run: 2, Session: "s", Node: "sl-0", PeerID: "12D3", Program: "train.py sha256:00"},
	ledger.Pause{Contract: "c", Run: 2},
	ledger.Resume{Contract: "c", Run: 2},
	ledger.End{Contract: "c", Run: 2},
	ledger.Admission{Node: "sn-1", PeerID: "12D3", By: "spiffe://a.example/swarm/swci"},
	ledger.Invitation{Number: 1, Node: "sn-d", SPIFFEID: "spiffe://a.example/swarm/sn/sn-d", Key: []byte{1}, ExpiresMS: 9, By: "spiffe://a.example/swarm/swci"},
	ledger.Admission{Node: "sn-d", PeerID: "12D3", By: "spiffe://a.example/swarm/swci", Invitation: 1, Claim: []byte{2}},
	ledger.Forget{Node: "sn-e", Invitation: 2},
	ledger.Task{Task: "t", Type: "PULL_IMAGE", By: "spiffe://a.example/swarm/swci"},
	ledger.FinalTask{Task: "t", Digest: "d"},
	ledger.DeletedTask{Task: "t", Digest: "d"},
	ledger.Approval{Assignment: "7", Task: "t", Digest: "d", Host: "h-0", Refused: true, Reason: "why", By: "spiffe://a.example/swarm/swci/bob"},
	ledger.Assigned{Assignment: "7", Task: "t", Digest: "d", Taskrunner: "tr", Hosts: []string{"h-0"}, By: "spiffe://a.example/swarm/swci", Groups: []ledger.Group{{Name: "peers", Peers: 2, Least: 1}}, InOrder: true, Retries: 1, TimeoutMS: 5, ExpiresMS: 9},
	ledger.EndedAssignment{Assignment: "7", Task: "t", Digest: "d", Verdict: "failed", Reason: "why", Members: []ledger.Member{{Node: "h-0", PeerID: "12D3", State: "exited", Code: 3}}},
	ledger.Assigned{Assignment: "8", Task: "t", Digest: "d", Taskrunner: "tr", Hosts: []string{"h-1"}, Groups: []ledger.Group{{Name: "peers", Peers: 1, Least: 1}}, Joins: "7"},
	ledger.EndedAssignment{Assignment: "8", Task: "t", Digest: "d", Verdict: "succeeded", Members: []ledger.Member{{Node: "h-1", PeerID: "12D3", State: "exited", Group: "peers", Peers: 1, Signature: "c2ln"}}, Epoch: 2},
	ledger.Rights{Sentences: []string{"Allow <x>"}, By: "spiffe://a.example/swarm/swci"},
}

func chain(t testing.TB) (lines [][]byte) {
	t.Helper()
	head := ledger.Head{}
	for i, body := range bodies {
		line, next, err := ledger.Append(head, int64(i), body)
		if err != nil {
			t.Fatal(err)
		}
		lines, head = append(lines, line), next
	}
	return lines
}

func TestChain(t *testing.T) {
	head := ledger.Head{}
	for i, line := range chain(t) {
		r, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != bodies[i].Kind() || body.Kind() != r.Kind || r.Seq != uint64(i+1) || r.AtMS != int64(i) {
			t.Errorf("record %d reads as %+v", i+1, r)
		}
		if head, err = ledger.Follow(head, line); err != nil {
			t.Fatal(err)
		}
	}
	lines := chain(t)
	for _, line := range lines[1:] {
		if _, err := ledger.Follow(ledger.Head{}, line); !errors.Is(err, ledger.ErrChain) {
			t.Errorf("a later record begins a chain: %v", err)
		}
	}
	if _, err := ledger.Follow(head, lines[len(lines)-1]); !errors.Is(err, ledger.ErrChain) {
		t.Errorf("a record follows itself: %v", err)
	}
}

// goldenHash is what sha256sum says: see the format's documentation.
const goldenHash = "6fc4b71f422dadbf02516208ab7c53caeab214f82dd40574684419527052a9d8"

// TestGoldenFirstRecord holds form and hash: files of earlier versions stay what they were.
func TestGoldenFirstRecord(t *testing.T) {
	const want = `{"v":1,"seq":1,"prev":"0000000000000000000000000000000000000000000000000000000000000000","kind":"swarm","at_ms":0,"body":{"swarm_id":"s"}}` + "\n"
	line := chain(t)[0]
	if string(line) != want {
		t.Errorf("got %s, want %s", line, want)
	}
	if got := ledger.Hash(line); got != goldenHash {
		t.Errorf("hash %s, want %s", got, goldenHash)
	}
}

func TestParseRefuses(t *testing.T) {
	good := string(chain(t)[3])
	for name, line := range map[string]string{
		"empty": "", "no line feed": strings.TrimSuffix(good, "\n"), "two lines": good + good, "blank": " " + good,
		"version":       strings.Replace(good, `"v":1`, `"v":2`, 1),
		"kind":          strings.Replace(good, "forget", "dance", 1),
		"unknown field": strings.Replace(good, `"node"`, `"x":1,"node"`, 1),
		"twice":         strings.Replace(good, `"node":"sl-0"`, `"node":"sl-0","node":"sl-0"`, 1),
		"other case":    strings.Replace(good, `"node"`, `"Node"`, 1),
		"escaped":       strings.Replace(good, `sl-0`, `sl\u002d0`, 1),
		"missing":       strings.Replace(good, `,"peer_id":"12D3"`, "", 1),
		"null":          strings.Replace(good, `{"node":"sl-0","peer_id":"12D3"}`, "null", 1),
		"huge":          strings.Repeat("x", ledger.MaxRecord) + "\n",
	} {
		if _, _, err := ledger.Parse([]byte(line)); !errors.Is(err, ledger.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
	big := ledger.Ban{Reason: strings.Repeat("x", ledger.MaxRecord)}
	if _, _, err := ledger.Append(ledger.Head{}, 1, big); !errors.Is(err, ledger.ErrMalformed) {
		t.Errorf("too long a record: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range chain(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, body, err := ledger.Parse(line)
		if err != nil {
			return
		}
		head := ledger.Head{Length: r.Seq - 1, Hash: r.Prev}
		again, _, err := ledger.Append(head, r.AtMS, body)
		if r.Seq > 1 && (err != nil || !bytes.Equal(again, line)) {
			t.Fatalf("append(parse(x)) = %s, %v, want %s", again, err, line)
		}
	})
}
