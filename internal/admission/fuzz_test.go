package admission_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/round/onwire"
)

// FuzzEnrolled judges a peer by a view of an SN that says anything: only a session of that very node key that has not ended
// lets it in, and only with the SPIFFE ID that stands there, or one of its own below that.
func FuzzEnrolled(f *testing.F) {
	for _, s := range []*swarmv1.Session{
		{PeerId: "p", Node: "n", SpiffeId: "spiffe://d/swarm/sl", State: "open"},
		{PeerId: "p", Node: "n", SpiffeId: "spiffe://d/swarm/sl", State: "ended"},
		{PeerId: "p", SpiffeId: "", State: "open"},
		{},
	} {
		b, err := proto.Marshal(&swarmv1.ContractView{Sessions: []*swarmv1.Session{s}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "p", "spiffe://d/swarm/sl")
		f.Add(b, "p", "spiffe://d/swarm/sl/n")
		f.Add(b, "", "")
	}
	f.Fuzz(func(t *testing.T, b []byte, peer, proven string) {
		v := &swarmv1.ContractView{}
		if proto.Unmarshal(b, v) != nil {
			return
		}
		err := admission.Enrolled(onwire.View(v), peer, proven)
		lets := false
		for _, s := range v.GetSessions() {
			lets = lets || s.GetPeerId() == peer && s.GetState() != "ended" && s.GetSpiffeId() != "" &&
				(proven == s.GetSpiffeId() || proven == s.GetSpiffeId()+"/"+s.GetNode())
		}
		if err == nil && !lets {
			t.Errorf("%q with %q is let in by %v", peer, proven, v)
		}
		if admission.CheckIdentity("n", "", proven) == nil {
			t.Errorf("%q is as registered without any", proven)
		}
	})
}
