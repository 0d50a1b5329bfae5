package exchange_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// tapped keeps what one side of a stream writes and reads.
type tapped struct {
	exchange.Stream
	wrote, read *bytes.Buffer
}

func (s tapped) Write(b []byte) (int, error) {
	n, err := s.Stream.Write(b)
	s.wrote.Write(b[:n])
	return n, err
}

func (s tapped) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	s.read.Write(b[:n])
	return n, err
}

// TestTheSameBytesWithoutWitnesses: what travels in an attempt without witnesses is what travelled before there were any.
func TestTheSameBytesWithoutWitnesses(t *testing.T) {
	for text, want := range map[string]string{
		"mean":                   "1c66faa66849ef919eed775385059ece7102d26c631189e06387269377f75113",
		"geomedian":              "496f14e3763824e4b1324cdab5c35d941c23fc1107361015fca6f1b5ea5b6181",
		"normclip(factor=1.5)":   "41314b1665833651e274d3f600ce6d1f2a7721f61c6146fb6d218aa597384b35",
		"fedadam(wire=bfloat16)": "8a65288fa3fd51794d93b9f430141673eaa21f76b81b7cbf9c503a37ef29e626",
	} {
		if !thorough && text != "geomedian" {
			continue
		}
		l, _, _ := floats(t, 10, 1)
		const n = 4
		tr := newTraining(t, canonical(t, text), l, n, true, rand.New(rand.NewPCG(1, 2)))
		a := tr.plan(attempt(t, l, 1, 1, 2, 0, 3))
		synctest.Test(t, func(t *testing.T) {
			s, moved, mu := tr.join(newSwarm(t, n, exchange.Config{})), map[string]*bytes.Buffer{}, sync.Mutex{}
			s.wrap = func(from, to int, stream exchange.Stream) exchange.Stream {
				tap := tapped{stream, new(bytes.Buffer), new(bytes.Buffer)}
				mu.Lock()
				defer mu.Unlock()
				moved[fmt.Sprint(from, to, "w")], moved[fmt.Sprint(from, to, "r")] = tap.wrote, tap.read
				return tap
			}
			tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
			var all []byte
			for _, k := range slices.Sorted(maps.Keys(moved)) {
				all = fmt.Appendf(all, "%s %d\n", k, moved[k].Len())
				all = append(all, moved[k].Bytes()...)
			}
			if got := merge.Sum(all).String(); got != want || len(moved) != 2*n*(n-1) {
				t.Errorf("%s: %d bytes on %d ways of digest %s, want %s", text, len(all), len(moved), got, want)
			}
		})
	}
}
