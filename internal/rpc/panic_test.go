package rpc_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

type panicking struct{ rpctest.Lead }

func (*panicking) Status(string) planner.Status { panic("a bug with a secret") }

type memory struct{ handler http.Handler }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	return rpctest.RoundTrip(m.handler, r)
}

func TestPanicBecomesAnInternalError(t *testing.T) {
	var log bytes.Buffer
	core := must(rpctest.NewCore(swarmID, "sn-0"))(t)
	srv := must(rpc.New(rpc.Config{
		Name: "sn-0", Core: core, Lead: &panicking{}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Caller: rpctest.CallerAs("spiffe://x/swarm/swci"),
	}))(t)
	c := swarmv1connect.NewContractServiceClient(&http.Client{Transport: memory{srv.Handler()}}, "https://sn-0")
	req := connect.NewRequest(&swarmv1.GetContractStatusRequest{Contract: state.DefaultContract})
	must(core.Propose(t.Context(), state.CreateContract{Contract: state.DefaultContract, Rules: state.Rules{MinPeers: 2}, AtMS: 1}))(t)
	req.Header().Set(rpc.HeaderSwarmID, swarmID)
	_, err := c.GetContractStatus(t.Context(), req)
	wantReason(t, "panic", err, rpc.ReasonInternal)
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "a bug with a secret") {
		t.Errorf("told %v, logged %s", err, log.String())
	}
}

func TestCallerWithoutIdentityIsRefused(t *testing.T) {
	core := must(rpctest.NewCore(swarmID, "sn-0"))(t)
	srv := must(rpc.New(rpc.Config{Name: "sn-0", Core: core, Lead: &rpctest.Lead{}, Caller: rpc.TLSCaller(nil), Log: slog.New(slog.DiscardHandler)}))(t)
	h := &http.Client{Transport: memory{srv.Handler()}} // no TLS, and TLSCaller
	c := swarmv1connect.NewSwarmServiceClient(h, "https://sn-0")
	_, err := c.GetSwarm(t.Context(), connect.NewRequest(&swarmv1.GetSwarmRequest{}))
	wantReason(t, "no certificate", err, "NO_CERTIFICATE")
	res, err := h.Get("https://sn-0/is_up")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("is_up without identity: %s", res.Status)
	}
}
