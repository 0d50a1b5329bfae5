package daemon

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// TestNobodyIsGoneWhoAnswers: an SN with which the operator has no handshake may lead all others, so nothing is founded beside it.
func TestNobodyIsGoneWhoAnswers(t *testing.T) {
	id := strings.Repeat("ab", 16)
	authority, err := rpctest.NewAuthority("hospital.example")
	if err != nil {
		t.Fatal(err)
	}
	domains, err := authority.Domains()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := identity.NewDomains(spiffeid.RequireTrustDomainFromString("elsewhere.example"))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(path string, life time.Duration) *rpctest.Source {
		source, err := authority.Issue(path, life)
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	var living []recovery.Voter
	for _, name := range []string{"sn-1", "sn-2"} {
		h := p2ptest.Start(t, p2p.Config{
			Key: p2ptest.NewKey(t), Source: issue("/swarm/sn/"+name, time.Hour), Domains: domains, Log: slog.New(slog.DiscardHandler),
			ListenAddrs: []string{"127.0.0.1:0"}, SwarmID: func() string { return id },
		})
		living = append(living, recovery.Voter{Name: name, PeerID: h.ID().String(), Address: h.ListenAddrs()[0]})
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := []recovery.Voter{
		{Name: "sn-1", Address: closed.Addr().String()},
		{Name: "sn-2", Address: "no-such-host.invalid:30303"},
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	second := epoch.Pin{SwarmID: id, Epoch: 2, Digest: strings.Repeat("0", 24)}
	operator := p2p.ProbeConfig{Source: issue("/swarm/swci/x", time.Hour), Domains: domains}
	for _, tt := range []struct {
		name string
		cfg  p2p.ProbeConfig
		of   epoch.Pin
		sns  []recovery.Voter
		want string // in the refusal; empty: none
	}{
		{"they live", operator, epoch.First(id), living, "sn-1, sn-2 can be reached: with this SN that is 3 of 3, a majority"},
		{"under keys that are new here", operator, epoch.First(id), []recovery.Voter{{Name: "sn-1", PeerID: "old", Address: living[0].Address}}, "2 of 2, a majority"},
		{"of another trust domain", p2p.ProbeConfig{Source: operator.Source, Domains: elsewhere}, epoch.First(id), living, "SN sn-1 answers at " + living[0].Address + ", and may live"},
		{"and the operator's SVID has ended", p2p.ProbeConfig{Source: issue("/swarm/swci/x", -time.Minute), Domains: domains}, epoch.First(id), living, "and may live"},
		{"nobody is there", operator, epoch.First(id), gone, ""},
		{"of an epoch before", operator, second, living, ""},
	} {
		var said strings.Builder
		all, err := reach(t.Context(), tt.cfg, &said, tt.sns)
		if err == nil {
			err = lost(tt.of, all)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && strings.Count(said.String(), "\n") != len(tt.sns) {
			t.Errorf("%s: of %d SNs it says %q", tt.name, len(tt.sns), said.String())
		}
	}
}

// TestWhatSaysNothingMayHang: a socket that is open and silent is no proof that a node is gone; another program's is.
func TestWhatSaysNothingMayHang(t *testing.T) {
	authority, err := rpctest.NewAuthority("hospital.example")
	if err != nil {
		t.Fatal(err)
	}
	domains, err := authority.Domains()
	if err != nil {
		t.Fatal(err)
	}
	source, err := authority.Issue("/swarm/swci/x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for want, answer := range map[string]string{"and may live": "", "is gone": "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if answer != "" {
					_, _ = io.WriteString(c, answer)
					_ = c.Close()
				}
			}
		}()
		var said strings.Builder
		_, err = reach(t.Context(), p2p.ProbeConfig{Source: source, Domains: domains}, &said, []recovery.Voter{{Name: "sn-1", Address: l.Addr().String()}})
		if err != nil {
			said.WriteString(err.Error())
		}
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q, want %q", said.String(), want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
