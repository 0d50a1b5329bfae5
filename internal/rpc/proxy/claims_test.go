package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClaimsTravel(t *testing.T) {
	for name, c := range map[string]Claims{
		"a caller":       {Caller: "spiffe://a/swarm/sl/x"},
		"a registration": {Caller: "spiffe://a/swarm/sl", Chain: [][]byte{{1, 2}, {3}}, Exporter: []byte{4}},
	} {
		h := http.Header{}
		h.Set(headerCaller, "spiffe://a/swarm/swci") // as a client may say
		h.Set(headerChain, "!")
		h.Set(headerExporter, "!")
		c.put(h)
		got, passedOn, err := ClaimsOf(h)
		if d := cmp.Diff(c, got); err != nil || !passedOn || d != "" {
			t.Errorf("%s: %v, %t, %s", name, err, passedOn, d)
		}
	}
	if c, passedOn, err := ClaimsOf(http.Header{}); err != nil || passedOn || c.Caller != "" {
		t.Errorf("an SN's own request: %+v, %t, %v", c, passedOn, err)
	}
}

// FuzzClaimsOf reads what a hostile SN may claim.
func FuzzClaimsOf(f *testing.F) {
	f.Add("spiffe://a/swarm/sl", "AQI,Aw", "BA")
	f.Add("", ",", "")
	f.Add("0", "", "\n") // which base64 passes over
	f.Add(strings.Repeat("x", 5000), strings.Repeat(",", 100), "!")
	f.Fuzz(func(t *testing.T, caller, chain, exporter string) {
		h := http.Header{headerCaller: {caller}, headerChain: {chain}, headerExporter: {exporter}}
		got, passedOn, err := ClaimsOf(h)
		if err != nil || !passedOn {
			return
		}
		if got.Caller == "" || len(got.Caller) > maxCaller || len(got.Chain) > maxChain || len(got.Exporter) > maxExporter {
			t.Fatalf("out of bounds: %+v", got)
		}
		again := http.Header{}
		got.put(again)
		same, _, err := ClaimsOf(again)
		if err != nil || !cmp.Equal(got, same) {
			t.Fatalf("%+v became %+v, %v", got, same, err)
		}
	})
}
