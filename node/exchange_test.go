package node_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
	"github.com/swarmd/swarmd/node"
)

// unreachable is a network in which every peer refuses with a long text.
type unreachable struct{ text string }

func (n unreachable) OpenMerge(context.Context, *swarmv1.Participant, bool) (exchange.Stream, error) {
	return nil, errors.New(n.text)
}

func (n unreachable) FetchModel(context.Context, *swarmv1.Session, session.FetchRequest, io.Writer) error {
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
		x := node.Exchanger{Hub: exchange.NewHub(node.MergeConfig(key)), Network: unreachable{pad + strings.Repeat("é", 1000)}, Key: key, Peer: "a"}
		done, failed := x.Merge(t.Context(), session.Job{
			Contract: "c", Layout: layout, Source: strings.NewReader(strings.Repeat("\x00", 1<<19)),
			Plan: &swarmv1.Plan{Run: 1, Round: 1, Attempt: 1, Method: "mean", Participants: []*swarmv1.Participant{
				{Node: "a", PeerId: "a", Weight: 1, ShardLeaves: 1}, {Node: "b", PeerId: "b", Weight: 1, ShardFirst: 1, ShardLeaves: 1},
			}},
		})
		if done != nil || failed.GetBlamed() != "b" || len(failed.GetReason()) < 500 {
			t.Fatalf("got %v, %v", done, failed)
		}
		if _, err := proto.Marshal(failed); err != nil {
			t.Error(err)
		}
		x.Hub.Close()
	}
}
