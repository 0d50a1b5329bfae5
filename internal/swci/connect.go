package swci

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// identityWait is how long swarmctl waits for its SVID: an authority that is up answers in milliseconds.
const identityWait = 5 * time.Second

// callWait bounds one API call of a one-shot command.
const callWait = 15 * time.Second

// Dial connects to a swarm's SNs over mutual TLS with an SVID. The first SN that answers is used.
func Dial(getenv func(string) string) Connect {
	return func(ctx context.Context, target Context) (API, func(), error) {
		socket, err := identitySocket(target.Identity, getenv)
		if err != nil {
			return nil, func() {}, err
		}
		if path, ok := strings.CutPrefix(socket, "unix://"); ok {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return nil, func() {}, exit.New(exit.Unreachable, "start swarmd run-authority, or name the right folder with --identity", "no identity socket at %s", path)
			}
		}
		wait, cancel := context.WithTimeout(ctx, identityWait)
		defer cancel()
		source, err := workloadapi.NewX509Source(wait, workloadapi.WithClientOptions(workloadapi.WithAddr(socket)))
		if err != nil {
			return nil, func() {}, exit.New(exit.Unreachable, "is the SPIRE agent or the embedded authority running?", "get SVID from %s: %w", socket, err)
		}
		svid, err := source.GetX509SVID()
		if err != nil {
			_ = source.Close()
			return nil, func() {}, exit.New(exit.Denied, "", "get SVID from %s: %w", socket, err)
		}
		transport := &http.Transport{
			TLSClientConfig:   tlsconfig.MTLSClientConfig(source, source, authorizeSN(svid.ID.TrustDomain(), target.TrustDomains)),
			ForceAttemptHTTP2: true, ResponseHeaderTimeout: callWait,
		}
		closeAll := func() {
			transport.CloseIdleConnections()
			_ = source.Close()
		}
		return newRemote(&http.Client{Transport: transport}, target), closeAll, nil
	}
}

// authorizeSN accepts SNs of the own trust domain and of those named.
func authorizeSN(own spiffeid.TrustDomain, others []string) tlsconfig.Authorizer {
	return func(id spiffeid.ID, _ [][]*x509.Certificate) error {
		known := id.TrustDomain() == own
		for _, d := range others {
			known = known || id.TrustDomain().Name() == d
		}
		if !known {
			return fmt.Errorf("trust domain %q is not accepted", id.TrustDomain())
		}
		if p := id.Path(); p != "/swarm/sn" && !strings.HasPrefix(p, "/swarm/sn/") {
			return fmt.Errorf("%s is no SN", id)
		}
		return nil
	}
}

// remote calls the SNs' API one after the other until one answers.
type remote struct {
	http    *http.Client
	sns     []string
	swarmID string
}

func newRemote(client *http.Client, target Context) *remote {
	return &remote{http: client, sns: target.SNs, swarmID: target.SwarmID}
}

var _ API = (*remote)(nil)

// call tries fn with each SN's base URL; only an SN that can't be reached is passed over.
func call[Req, Res any](ctx context.Context, r *remote, do func(ctx context.Context, base string, req *connect.Request[Req]) (*connect.Response[Res], error), msg *Req) (*Res, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	var last error
	for _, sn := range r.sns {
		req := connect.NewRequest(msg)
		if r.swarmID != "" {
			req.Header().Set("Swarm-Id", r.swarmID)
		}
		res, err := do(ctx, "https://"+sn, req)
		if err == nil {
			return res.Msg, nil
		}
		last = apiError(sn, err)
		if connect.CodeOf(err) != connect.CodeUnavailable {
			break
		}
	}
	return nil, last
}

// GetSwarm implements API.
func (r *remote) GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error) {
	return call(ctx, r, func(ctx context.Context, base string, req *connect.Request[swarmv1.GetSwarmRequest]) (*connect.Response[swarmv1.GetSwarmResponse], error) {
		return swarmv1connect.NewSwarmServiceClient(r.http, base).GetSwarm(ctx, req)
	}, &swarmv1.GetSwarmRequest{})
}

// ListNodes implements API.
func (r *remote) ListNodes(ctx context.Context) ([]*swarmv1.Node, error) {
	res, err := call(ctx, r, func(ctx context.Context, base string, req *connect.Request[swarmv1.ListNodesRequest]) (*connect.Response[swarmv1.ListNodesResponse], error) {
		return swarmv1connect.NewNodeServiceClient(r.http, base).ListNodes(ctx, req)
	}, &swarmv1.ListNodesRequest{})
	return res.GetNodes(), err
}

// ListContracts implements API.
func (r *remote) ListContracts(ctx context.Context) ([]*swarmv1.ContractSummary, error) {
	res, err := call(ctx, r, func(ctx context.Context, base string, req *connect.Request[swarmv1.ListContractsRequest]) (*connect.Response[swarmv1.ListContractsResponse], error) {
		return swarmv1connect.NewContractServiceClient(r.http, base).ListContracts(ctx, req)
	}, &swarmv1.ListContractsRequest{})
	return res.GetContracts(), err
}

// GetContractStatus implements API.
func (r *remote) GetContractStatus(ctx context.Context, name string) (*swarmv1.GetContractStatusResponse, error) {
	return call(ctx, r, func(ctx context.Context, base string, req *connect.Request[swarmv1.GetContractStatusRequest]) (*connect.Response[swarmv1.GetContractStatusResponse], error) {
		return swarmv1connect.NewContractServiceClient(r.http, base).GetContractStatus(ctx, req)
	}, &swarmv1.GetContractStatusRequest{Contract: name})
}

// ResetContract implements API.
func (r *remote) ResetContract(ctx context.Context, name string, force bool) (uint64, error) {
	res, err := call(ctx, r, func(ctx context.Context, base string, req *connect.Request[swarmv1.ResetContractRequest]) (*connect.Response[swarmv1.ResetContractResponse], error) {
		return swarmv1connect.NewContractServiceClient(r.http, base).ResetContract(ctx, req)
	}, &swarmv1.ResetContractRequest{Contract: name, Force: force})
	return res.GetRun(), err
}
