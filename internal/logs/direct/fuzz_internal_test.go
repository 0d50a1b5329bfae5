package direct

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/p2p"
)

// framed is a message as it travels.
func framed(f *testing.F, m proto.Message) []byte {
	f.Helper()
	raw, err := proto.Marshal(m)
	var b bytes.Buffer
	if err == nil {
		err = p2p.WriteFrame(&b, raw)
	}
	if err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// FuzzFrames holds what each side reads of the other to its bounds: what is taken fits into a frame of its kind, and nothing behind it is read.
func FuzzFrames(f *testing.F) {
	f.Add(framed(f, &swarmv1.LogOrder{Request: []byte("r"), Nonce: make([]byte, 16), Chain: [][]byte{{1}, {2}}}))
	f.Add(framed(f, &swarmv1.LogText{Lines: []*swarmv1.LogLine{{From: "sl", Text: "loss"}}, Over: true, Refused: "no"}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 1, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		order, text := bytes.NewReader(raw), bytes.NewReader(raw)
		if o, err := readOrder(order); err == nil && (proto.Size(o) > maxAsked || len(raw)-order.Len() > 4+maxAsked) {
			t.Errorf("a request of %d bytes was taken", proto.Size(o))
		} else if err == nil {
			_, _ = logs.PartOf(o) // it reads what was taken
		}
		if m, err := next(text); err == nil && (proto.Size(m) > logs.MaxDirect || len(raw)-text.Len() > 4+logs.MaxDirect) {
			t.Errorf("a text of %d bytes was taken", proto.Size(m))
		}
	})
}
