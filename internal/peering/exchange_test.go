package peering_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"google.golang.org/protobuf/proto"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// unreachable is a network in which every peer refuses with a long text.
type unreachable struct{ text string }

func (n unreachable) OpenMerge(context.Context, *round.Participant, bool) (exchange.Stream, error) {
	return nil, errors.New(n.text)
}

func (n unreachable) FetchModel(context.Context, *round.Session, round.Ref, int64, io.Writer) error {
	return errors.New(n.text)
}

// TestFailureCanBeReported: the reason may hold what a peer said. Cut within a character it could not be sent, no
// heartbeat of this node would be taken any more, and the others would declare it dead.
func TestFailureCanBeReported(t *testing.T) {
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{300}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, pad := range []string{"", "x"} {
		x := peering.Exchanger{Hub: exchange.NewHub(peering.HubConfig(key)), Network: unreachable{pad + strings.Repeat("é", 1000)}, Key: key, Peer: "a"}
		done, failed := x.Merge(t.Context(), session.Job{
			Contract: "c", Layout: layout, Source: strings.NewReader(strings.Repeat("\x00", 1<<19)),
			Plan: &round.Plan{Run: 1, Round: 1, Attempt: 1, Method: "mean", Participants: []*round.Participant{
				{Node: "a", PeerID: "a", Weight: 1, Shards: []state.LeafRun{{Leaves: 1}}}, {Node: "b", PeerID: "b", Weight: 1, Shards: []state.LeafRun{{First: 1, Leaves: 1}}},
			}},
		})
		if done != nil || failed.Blamed != "b" || len(failed.Reason) < 500 {
			t.Fatalf("got %v, %v", done, failed)
		}
		if _, err := proto.Marshal(onwire.Report(&round.Report{Failed: failed})); err != nil {
			t.Error(err)
		}
		x.Hub.Close()
	}
}
