package admission_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/fetch"
)

// noting keeps what is to be recorded.
type noting struct {
	asked []*swarmv1.RecordFetchRequest
	err   error
}

func (n *noting) RecordFetch(_ context.Context, m *swarmv1.RecordFetchRequest) error {
	n.asked = append(n.asked, m)
	return n.err
}

// TestNoModelIsLetOutThatIsNotOnRecord, and one that is needs no second record.
func TestNoModelIsLetOutThatIsNotOnRecord(t *testing.T) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	api := &noting{err: errors.New("no leader")}
	out := &admission.Releases{API: api, Key: key, Node: "sl-0", SwarmID: func() string { return "s" }}
	const by = "spiffe://a.example/swarm/swci/dr-who"
	req := fetch.Request{Kind: "model", Contract: "c", Run: 1, Round: 4, Digest: "d"}
	if err := out.Record(t.Context(), by, req); err == nil || !strings.Contains(err.Error(), "not let out: no leader") {
		t.Errorf("without a record: %v", err)
	}
	api.err = nil
	for _, offset := range []int64{0, 100} {
		req.Offset = offset
		if err := out.Record(t.Context(), by, req); err != nil {
			t.Fatal(err)
		}
	}
	if len(api.asked) != 2 {
		t.Errorf("asked %d times: one that failed and one that is recorded", len(api.asked))
	}
	if err := out.Record(t.Context(), by+"-2", req); err != nil || len(api.asked) != 3 {
		t.Errorf("another operator: %v, asked %d times", err, len(api.asked))
	}
	m := api.asked[1]
	message := identity.FetchMessage(identity.Fetch{SwarmID: "s", Node: "sl-0", Contract: "c", Run: 1, Round: 4, Model: "d", By: by, AtMS: m.GetAtUnixMs()})
	if err := identity.VerifyNodeSignature(id.String(), message, m.GetSignature()); err != nil {
		t.Error(err)
	}
}
