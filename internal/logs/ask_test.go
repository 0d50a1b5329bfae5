package logs_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/logs"
)

const eve = "spiffe://x.org/swarm/swci/eve"

func TestReaders(t *testing.T) {
	for _, tt := range []struct {
		named []string
		by    string
		want  string // empty: it may
	}{
		{nil, "spiffe://h.org/swarm/swci", ""},
		{nil, "spiffe://h.org/swarm/swci/ann", ""},
		{nil, eve, "its log does not go to " + eve + ": by default it goes to spiffe://h.org/swarm/swci/**; to let it, start the node with --logs-to"},
		{nil, "spiffe://h.org/swarm/sn", "by default"},
		{[]string{"spiffe://x.org/swarm/swci/*"}, eve, ""},
		{[]string{"spiffe://x.org/swarm/swci/*"}, "spiffe://h.org/swarm/swci/ann", "--logs-to it goes to spiffe://x.org/swarm/swci/*"},
		{[]string{logs.None}, "spiffe://h.org/swarm/swci/ann", "nobody"},
	} {
		may, err := logs.Readers("h.org", tt.named)
		if err != nil {
			t.Fatal(err)
		}
		if err := may(tt.by); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q to %s: %v, want %q", tt.named, tt.by, err, tt.want)
		}
	}
	for _, named := range [][]string{{"x"}, {logs.None, eve}, {eve, logs.None}, make([]string, 10_000)} {
		if _, err := logs.Readers("h.org", named); err == nil || !strings.Contains(err.Error(), "--logs-to") {
			t.Errorf("%.40q: %v", named, err)
		}
	}
}

// TestPartsOfArtifacts: members are named in an epoch, of artifacts alone, as many as a job may have, which fit into a request.
func TestPartsOfArtifacts(t *testing.T) {
	many := make([]uint32, 1025)
	for i := range many {
		many[i] = uint32(i) //nolint:gosec // small
	}
	name := strings.Repeat("n", 128)
	for _, tt := range []struct {
		part *swarmv1.LogPart
		want string
	}{
		{&swarmv1.LogPart{Node: name, Assignment: name, Artifacts: true, Epoch: 1 << 31, Members: many[:1024], Key: make([]byte, 1216), ExpiresUnixMs: 1 << 50}, ""},
		{&swarmv1.LogPart{Node: "h", Assignment: "7", Artifacts: true}, ""},
		{&swarmv1.LogPart{Node: "h", Assignment: "7", Artifacts: true, Epoch: 2, Members: many}, "at most 1024"},
		{&swarmv1.LogPart{Node: "h", Assignment: "7", Artifacts: true, Members: many[:1]}, "it names an epoch, or members"},
		{&swarmv1.LogPart{Node: "h", Assignment: "7", Epoch: 2}, "it names an epoch, or members"},
		{&swarmv1.LogPart{Node: "h", Assignment: "7", Members: many[:1]}, "it names an epoch, or members"},
		{&swarmv1.LogPart{Node: "h", Figures: true}, ""},
		{&swarmv1.LogPart{Node: "h", Figures: true, Assignment: "7"}, "figures of an assignment"},
		{&swarmv1.LogPart{Node: "h", Figures: true, Follow: true}, "or to follow them"},
	} {
		raw, err := proto.Marshal(tt.part)
		if err != nil {
			t.Fatal(err)
		}
		_, err = logs.PartOf(&swarmv1.LogOrder{Request: raw, Nonce: make([]byte, 16)})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80v: %v, want %q", tt.part, err, tt.want)
		}
	}
}

// FuzzPartOf holds that what an SN shows as signed is in its bounds if it is taken, and the same for everybody who reads it.
func FuzzPartOf(f *testing.F) {
	for _, p := range []*swarmv1.LogPart{{Node: "h-0", Tail: 100, Key: make([]byte, 1216)}, {Node: "h-0", Assignment: "7", Follow: true}, {}, {Node: "h", Tail: logs.MaxTail + 1}} {
		raw, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, 16, 70)
	}
	f.Add([]byte("\xa2\x06\x01x"), 16, 70)
	f.Fuzz(func(t *testing.T, request []byte, nonce, signature int) {
		o := &swarmv1.LogOrder{Request: request, Nonce: make([]byte, max(nonce, 0)%64), Signature: make([]byte, max(signature, 0)%4096)}
		p, err := logs.PartOf(o)
		if err != nil {
			return
		}
		if p.GetNode() == "" || len(p.GetNode()) > 128 || len(p.GetAssignment()) > 128 || p.GetTail() > logs.MaxTail || len(request) > 4<<10 || len(o.GetNonce()) != 16 {
			t.Errorf("taken: %v", p)
		}
		if again, err := logs.PartOf(o); err != nil || !proto.Equal(p, again) {
			t.Errorf("read again: %v, %v", again, err)
		}
	})
}
