package start_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/start"
)

func TestSettleSN(t *testing.T) {
	for name, tt := range map[string]struct {
		given, want start.SN
		error       string
	}{
		"0.3: the same address":  {given: start.SN{Node: start.Node{Host: "a"}, SentinelHost: "a"}, want: start.SN{Node: start.Node{Host: "a"}, SentinelHost: "a"}},
		"--sentinel":             {given: start.SN{Node: start.Node{Host: "a"}, Sentinel: true}, want: start.SN{Node: start.Node{Host: "a"}, SentinelHost: "a"}},
		"--sentinel and its own": {given: start.SN{Node: start.Node{Host: "a"}, Sentinel: true, SentinelHost: "a"}, want: start.SN{Node: start.Node{Host: "a"}, SentinelHost: "a"}},
		"--sentinel and another": {given: start.SN{Node: start.Node{Host: "a"}, Sentinel: true, SentinelHost: "b"}, error: "--sentinel makes this node (a) the Sentinel, and b is named"},
		"a joiner's service":     {given: start.SN{Node: start.Node{Host: "a"}, SentinelService: "api.b:443"}, want: start.SN{Node: start.Node{Host: "a"}, SentinelHost: "api.b"}},
		"a sentinel's service, its own": {
			given: start.SN{SentinelService: "api.a", APIService: "API.a:443", P2PService: "p2p.a"},
			want:  start.SN{Node: start.Node{Host: "p2p.a"}, SentinelHost: "p2p.a", APIService: "API.a:443", P2PService: "p2p.a", P2PPort: 30303},
		},
		"no --host-ip": {
			given: start.SN{Sentinel: true, APIService: "api.a", P2PService: "p2p.a"},
			want:  start.SN{Node: start.Node{Host: "p2p.a"}, SentinelHost: "p2p.a", APIService: "api.a:443", P2PService: "p2p.a", P2PPort: 30303},
		},
		"a sentinel behind a proxy": {
			given: start.SN{Node: start.Node{Host: "10.0.0.1"}, SentinelHost: "10.0.0.1", P2PService: "p2p.a:31303"},
			want:  start.SN{Node: start.Node{Host: "p2p.a"}, SentinelHost: "p2p.a", P2PService: "p2p.a:31303", P2PPort: 31303},
		},
		"--sentinel and --no-found": {given: start.SN{Node: start.Node{Host: "a"}, Sentinel: true, NoFound: true}, error: "--sentinel founds a swarm, --no-found forbids it"},
		"two ports":                 {given: start.SN{P2PService: "p2p.a:31303", P2PPort: 30303}, error: "give the same port in both"},
		"no name":                   {given: start.SN{APIService: "a b"}, error: "--sn-api-service a b: want FQDN or FQDN:PORT"},
	} {
		got := tt.given
		err := got.Settle()
		switch {
		case tt.error != "" && (err == nil || !strings.Contains(err.Error(), tt.error)):
			t.Errorf("%s: error %v, want %q", name, err, tt.error)
		case tt.error == "" && (err != nil || got.Host != tt.want.Host || got.SentinelHost != tt.want.SentinelHost || got.APIService != tt.want.APIService ||
			got.P2PPort != tt.want.P2PPort || got.Sentinel != tt.given.Sentinel || got.SentinelService != ""):
			t.Errorf("%s: %v, %+v, want %+v", name, err, got, tt.want)
		}
	}
}

func TestSettleSL(t *testing.T) {
	o := start.SL{SNs: []string{"sn1"}, SNService: "api.sn2", FSService: "fs.sl1:16000", ML: start.ML{GPUs: `"device=0,2"`}}
	if err := o.Settle(); err != nil || strings.Join(o.SNs, " ") != "sn1 api.sn2:443" || o.Host != "fs.sl1" || o.FSPort != 16000 || o.GPUs != "0,2" {
		t.Errorf("%v: %+v", err, o)
	}
	for gpus, want := range map[string]string{"all": "all", "ALL": "ALL", "2": "0,1", "device=GPU-1": "GPU-1"} {
		o := start.SL{ML: start.ML{GPUs: gpus}}
		if err := o.Settle(); err != nil || o.GPUs != want {
			t.Errorf("--ml-gpus %s is --gpu %s, %v; want %s", gpus, o.GPUs, err, want)
		}
	}
	for want, o := range map[string]start.SL{
		"give one of the two":             {GPUs: "0", ML: start.ML{GPUs: "all"}},
		"want all, a number of GPUs":      {ML: start.ML{GPUs: "capabilities=utility"}},
		"--sl-fs-service :1: want FQDN":   {FSService: ":1"},
		"--sn-api-service x:0: want FQDN": {SNService: "x:0"},
	} {
		if err := o.Settle(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
