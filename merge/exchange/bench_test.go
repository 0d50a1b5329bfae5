package exchange_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// flat is a slot without locks or counting, as a file is.
type flat []byte

func (f flat) ReadAt(p []byte, off int64) (int, error) {
	if n := copy(p, f[off:]); n < len(p) {
		return n, io.EOF
	}
	return len(p), nil
}
func (f flat) WriteAt(p []byte, off int64) (int, error) { return copy(f[off:], p), nil }

// loopback dials over TCP on this machine.
func loopback(tb testing.TB) func(int, int) (exchange.Stream, exchange.Stream, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ln.Close() })
	lock := make(chan struct{}, 1)
	return func(int, int) (exchange.Stream, exchange.Stream, error) {
		lock <- struct{}{}
		defer func() { <-lock }()
		a, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return nil, nil, err
		}
		b, err := ln.Accept()
		if err != nil {
			return nil, nil, err
		}
		return tcp{a.(*net.TCPConn)}, tcp{b.(*net.TCPConn)}, nil
	}
}

// BenchmarkRound merges 100 MiB among four peers of one process over loopback.
func BenchmarkRound(b *testing.B) { benchRounds(b, 0) }

// BenchmarkWitnesses is BenchmarkRound where two or three of the peers merge each shard.
func BenchmarkWitnesses(b *testing.B) {
	for _, k := range []int{2, 3} {
		b.Run(fmt.Sprint(k), func(b *testing.B) { benchRounds(b, k) })
	}
}

func benchRounds(b *testing.B, mergers int) {
	b.Helper()
	const n, size = 4, 100 << 20
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{size / 4}}})
	if err != nil {
		b.Fatal(err)
	}
	s := newSwarm(b, n, exchange.Config{})
	s.dials = loopback(b)
	var slots []exchange.Slots
	ids := make([]int, n)
	for i := range n {
		slots = append(slots, exchange.Slots{Name: "m", Local: make(flat, size), Merged: make(flat, size)})
		ids[i] = i
	}
	start := time.Now()
	round := uint64(0)
	for b.Loop() {
		round++
		a := attempt(b, l, 1, 1, 2, 3, 4)
		if a.Round = round; mergers > 1 {
			a = witnessing(a, mergers)
		}
		errs := make(chan error, n)
		for i := range n {
			go func() {
				mine := a
				mine.Self = i
				_, err := s.hubs[i].Run(context.Background(), mine, slots[i], s.dial(i, ids))
				errs <- err
			}()
		}
		for range n {
			if err := <-errs; err != nil {
				b.Fatal(err)
			}
		}
	}
	sec := time.Since(start).Seconds()
	var moved uint64
	for _, h := range s.hubs {
		moved += h.SentBytes()
	}
	b.ReportMetric(sec/float64(round), "s/round")
	b.ReportMetric(float64(moved)/sec/1e9, "GB/s")
	b.ReportMetric(float64(moved)/float64(round)/float64(2*(n-1)*size), "sent/theory")
	if s.dialed != n*(n-1) {
		b.Error(fmt.Errorf("%d streams were dialled in %d rounds, want %d", s.dialed, round, n*(n-1)))
	}
}
