package delta_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/delta"
)

// BenchmarkSend is what a change of a contract costs an SN with as many watchers as peers: by differences, and as whole views
// that each stream encodes and compresses for itself.
func BenchmarkSend(b *testing.B) {
	for _, peers := range []int{16, 32, 100} {
		b.Run(fmt.Sprintf("packed/%d", peers), func(b *testing.B) {
			f, v := &feeder{TB: b}, contract(peers)
			f.take(v)
			sent := 0
			for b.Loop() {
				step(v)
				s := f.take(v)
				for range peers {
					msg, err := s.Packed(s.Revision() - 1)
					if err != nil {
						b.Fatal(err)
					}
					raw, _ := proto.Marshal(msg)
					sent += len(raw)
				}
			}
			b.ReportMetric(float64(sent)/float64(b.N), "B-sent/op")
		})
		b.Run(fmt.Sprintf("plain/%d", peers), func(b *testing.B) {
			v, z := contract(peers), gzip.NewWriter(nil)
			sent := 0
			for b.Loop() {
				step(v)
				for range peers {
					raw, _ := proto.Marshal(v)
					if len(raw) >= 8<<10 {
						var out bytes.Buffer
						z.Reset(&out)
						_, _ = z.Write(raw)
						_ = z.Close()
						raw = out.Bytes()
					}
					sent += len(raw)
				}
			}
			b.ReportMetric(float64(sent)/float64(b.N), "B-sent/op")
		})
	}
}

// BenchmarkReceive is what a change costs each watcher.
func BenchmarkReceive(b *testing.B) {
	for _, peers := range []int{16, 32, 100} {
		f, v := &feeder{TB: b}, contract(peers)
		plan(v)
		commit(v)
		plan(v)
		base := packed(b, f.take(v), 0)
		var diffs []*swarmv1.ContractView
		var wholes [][]byte
		for range 64 {
			step(v)
			s := f.take(v)
			diffs = append(diffs, packed(b, s, s.Revision()-1))
			raw, _ := proto.Marshal(v)
			wholes = append(wholes, raw)
		}
		b.Run(fmt.Sprintf("packed/%d", peers), func(b *testing.B) {
			b.ReportAllocs()
			var d delta.Decoder
			for i := 0; b.Loop(); i++ {
				if i%len(diffs) == 0 {
					d = delta.Decoder{}
					_, _ = d.View(base)
				}
				if _, err := d.View(diffs[i%len(diffs)]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("plain/%d", peers), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := proto.Unmarshal(wholes[i%len(wholes)], &swarmv1.ContractView{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// step plans a round or commits it.
func step(v *swarmv1.ContractView) {
	if v.Plan == nil {
		plan(v)
	} else {
		commit(v)
	}
}
