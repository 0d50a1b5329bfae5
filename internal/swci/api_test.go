package swci_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// fake is a swarm that answers as a test wants it. Its errors are those that swarmctl shall end with.
type fake interface {
	fakeNodes
	fakeSNs
	fakeContracts
	ListModels(ctx context.Context, contract string) (*swarmv1.ListModelsResponse, error)
}

// fakeHosts are those of a swarm whose nodes hand out logs.
type fakeHosts interface {
	Logs(t *testing.T, a *rpctest.Authority) swarmv1connect.LogServiceHandler
}

type fakeSNs interface {
	GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error)
	GetHealth(ctx context.Context) ([]client.SNHealth, error)
	ReadLedger(ctx context.Context, w io.Writer) (int64, error)
	ReadBackup(ctx context.Context, w io.Writer) (int64, error)
}

type fakeNodes interface {
	ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error)
	ForgetNode(ctx context.Context, name string) error
	BanNode(ctx context.Context, name, reason string) (*swarmv1.Ban, error)
	UnbanNode(ctx context.Context, name string) error
	AdmitNode(ctx context.Context, name, peerID string) error
}

type fakeContracts interface {
	ListContracts(ctx context.Context) (*swarmv1.ListContractsResponse, error)
	GetContractStatus(ctx context.Context, name string) (*swarmv1.GetContractStatusResponse, error)
	CreateContract(ctx context.Context, name string, rules *swarmv1.Rules) (*swarmv1.ContractView, error)
	ResetContract(ctx context.Context, name string, force bool) (uint64, error)
	DeleteContract(ctx context.Context, name string, force bool) (uint64, error)
	HaltContract(ctx context.Context, verb, name string, run uint64) (*swarmv1.ContractView, error)
}

// answering returns a client of the swarm, whose SNs are those that tell their health.
func answering(t *testing.T, swarm fake) client.Operator {
	t.Helper()
	authority, err := rpctest.NewAuthority("a.example")
	if err != nil {
		t.Fatal(err)
	}
	source, err := authority.Issue("/swarm/swci", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	said, err := swarm.GetHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sns := sns{swarm: swarm, health: map[string]client.SNHealth{}}
	var up, down []string
	for _, sn := range said {
		sns.health[sn.Address] = sn
		if sn.Err != nil {
			down = append(down, sn.Address)
		} else {
			up = append(up, sn.Address)
		}
	}
	if hosts, ok := swarm.(fakeHosts); ok {
		sns.logs = hosts.Logs(t, authority)
	}
	domains, err := authority.Domains()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{
		SNs: slices.Concat(up, down), Source: source, Domains: domains, Transport: sns, GiveUp: true, CallWait: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client.Operator{Client: c}
}

// sns serves a fake swarm in memory.
type sns struct {
	swarm  fake
	health map[string]client.SNHealth // by address
	logs   swarmv1connect.LogServiceHandler
}

// RoundTrip implements http.RoundTripper.
func (s sns) RoundTrip(r *http.Request) (*http.Response, error) {
	own := s.health[r.URL.Host]
	if own.Err != nil {
		return nil, own.Err
	}
	h := handler{swarm: s.swarm, all: s.health, own: own}
	mux := http.NewServeMux()
	mux.Handle(swarmv1connect.NewSwarmServiceHandler(h))
	mux.Handle(swarmv1connect.NewNodeServiceHandler(h))
	mux.Handle(swarmv1connect.NewContractServiceHandler(h))
	mux.Handle(swarmv1connect.NewModelServiceHandler(h))
	mux.Handle(swarmv1connect.NewLedgerServiceHandler(h))
	mux.Handle(swarmv1connect.NewBackupServiceHandler(h))
	if tasks, ok := s.swarm.(swarmv1connect.TaskServiceHandler); ok {
		mux.Handle(swarmv1connect.NewTaskServiceHandler(tasks))
	}
	mux.Handle(swarmv1connect.NewRightsServiceHandler(h))
	if s.logs != nil {
		mux.Handle(swarmv1connect.NewLogServiceHandler(s.logs))
	}
	return rpctest.RoundTrip(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if all, err := s.swarm.GetSwarm(r.Context()); err == nil {
			w.Header().Set(rpc.HeaderSwarmID, all.GetSwarmId())
		}
		mux.ServeHTTP(w, r)
	}), r)
}

// handler is the API of one SN.
type handler struct {
	swarmv1connect.UnimplementedNodeServiceHandler
	swarmv1connect.UnimplementedModelServiceHandler
	swarmv1connect.UnimplementedSwarmServiceHandler
	swarmv1connect.UnimplementedRightsServiceHandler
	swarmv1connect.UnimplementedLedgerServiceHandler

	swarm fake
	all   map[string]client.SNHealth
	own   client.SNHealth
}

// answer makes of what a fake returns what travels.
func answer[T any](m *T, err error) (*connect.Response[T], error) {
	if err == nil {
		return connect.NewResponse(m), nil
	}
	return nil, travelling(err)
}

func travelling(err error) error {
	if made, ok := errors.AsType[*connect.Error](err); ok {
		return made
	}
	codes := map[int]connect.Code{
		exit.NotFound: connect.CodeNotFound, exit.Conflict: connect.CodeFailedPrecondition, exit.Denied: connect.CodePermissionDenied,
	}
	out := connect.NewError(codes[exit.Code(err)], err)
	if detail, err := connect.NewErrorDetail(&swarmv1.ErrorReason{Reason: "TEST", Remedy: exit.Hint(err)}); err == nil {
		out.AddDetail(detail)
	}
	return out
}

func (h handler) GetSwarm(ctx context.Context, _ *connect.Request[swarmv1.GetSwarmRequest]) (*connect.Response[swarmv1.GetSwarmResponse], error) {
	out, err := h.swarm.GetSwarm(ctx)
	for address, sn := range h.all {
		if host, port, err := net.SplitHostPort(address); err == nil && sn.Name != "" {
			n, _ := strconv.ParseUint(port, 10, 16)
			out.Sns = append(out.Sns, &swarmv1.Node{Name: sn.Name, Role: "sn", Host: host, ApiPort: uint32(n)})
		}
	}
	return answer(out, err)
}

func (h handler) GetHealth(context.Context, *connect.Request[swarmv1.GetHealthRequest]) (*connect.Response[swarmv1.GetHealthResponse], error) {
	return answer(&swarmv1.GetHealthResponse{Nodes: h.own.Nodes}, nil)
}

// fakeProbes are of a fake swarm whose nodes can be probed.
type fakeProbes interface {
	StartProbe(ctx context.Context) (uint64, error)
	GetProbe(ctx context.Context) (*swarmv1.GetProbeResponse, error)
}

func (h handler) StartProbe(ctx context.Context, r *connect.Request[swarmv1.StartProbeRequest]) (*connect.Response[swarmv1.StartProbeResponse], error) {
	probes, ok := h.swarm.(fakeProbes)
	if !ok {
		return h.UnimplementedSwarmServiceHandler.StartProbe(ctx, r)
	}
	run, err := probes.StartProbe(ctx)
	return answer(&swarmv1.StartProbeResponse{Run: run}, err)
}

func (h handler) GetProbe(ctx context.Context, r *connect.Request[swarmv1.GetProbeRequest]) (*connect.Response[swarmv1.GetProbeResponse], error) {
	probes, ok := h.swarm.(fakeProbes)
	if !ok {
		return h.UnimplementedSwarmServiceHandler.GetProbe(ctx, r)
	}
	return answer(probes.GetProbe(ctx))
}

func (h handler) Challenge(context.Context, *connect.Request[swarmv1.ChallengeRequest]) (*connect.Response[swarmv1.ChallengeResponse], error) {
	return answer(&swarmv1.ChallengeResponse{Nonce: []byte("nonce")}, nil)
}

func (h handler) ListNodes(ctx context.Context, _ *connect.Request[swarmv1.ListNodesRequest]) (*connect.Response[swarmv1.ListNodesResponse], error) {
	return answer(h.swarm.ListNodes(ctx))
}

func (h handler) ForgetNode(ctx context.Context, r *connect.Request[swarmv1.ForgetNodeRequest]) (*connect.Response[swarmv1.ForgetNodeResponse], error) {
	return answer(&swarmv1.ForgetNodeResponse{}, ordered(r.Msg.GetOrder(), h.swarm.ForgetNode(ctx, r.Msg.GetName())))
}

func (h handler) BanNode(ctx context.Context, r *connect.Request[swarmv1.BanNodeRequest]) (*connect.Response[swarmv1.BanNodeResponse], error) {
	ban, err := h.swarm.BanNode(ctx, r.Msg.GetName(), r.Msg.GetReason())
	return answer(&swarmv1.BanNodeResponse{Ban: ban}, ordered(r.Msg.GetOrder(), err))
}

func (h handler) UnbanNode(ctx context.Context, r *connect.Request[swarmv1.UnbanNodeRequest]) (*connect.Response[swarmv1.UnbanNodeResponse], error) {
	return answer(&swarmv1.UnbanNodeResponse{}, ordered(r.Msg.GetOrder(), h.swarm.UnbanNode(ctx, r.Msg.GetName())))
}

func (h handler) AdmitNode(ctx context.Context, r *connect.Request[swarmv1.AdmitNodeRequest]) (*connect.Response[swarmv1.AdmitNodeResponse], error) {
	return answer(&swarmv1.AdmitNodeResponse{}, ordered(r.Msg.GetOrder(), h.swarm.AdmitNode(ctx, r.Msg.GetName(), r.Msg.GetPeerId())))
}

func (h handler) ListContracts(ctx context.Context, _ *connect.Request[swarmv1.ListContractsRequest]) (*connect.Response[swarmv1.ListContractsResponse], error) {
	return answer(h.swarm.ListContracts(ctx))
}

// GetHistory implements swarmv1connect.ContractServiceHandler.
func (h handler) GetHistory(_ context.Context, r *connect.Request[swarmv1.GetHistoryRequest]) (*connect.Response[swarmv1.GetHistoryResponse], error) {
	if past, ok := h.swarm.(interface {
		GetHistory(r *swarmv1.GetHistoryRequest) *swarmv1.GetHistoryResponse
	}); ok {
		return connect.NewResponse(past.GetHistory(r.Msg)), nil
	}
	return connect.NewResponse(&swarmv1.GetHistoryResponse{}), nil
}

// GetEvents implements swarmv1connect.LedgerServiceHandler.
func (h handler) GetEvents(ctx context.Context, r *connect.Request[swarmv1.GetEventsRequest]) (*connect.Response[swarmv1.GetEventsResponse], error) {
	if noticing, ok := h.swarm.(interface {
		GetEvents(r *swarmv1.GetEventsRequest) *swarmv1.GetEventsResponse
	}); ok {
		return connect.NewResponse(noticing.GetEvents(r.Msg)), nil
	}
	return h.UnimplementedLedgerServiceHandler.GetEvents(ctx, r)
}

func (h handler) GetContractStatus(ctx context.Context, r *connect.Request[swarmv1.GetContractStatusRequest]) (*connect.Response[swarmv1.GetContractStatusResponse], error) {
	st, err := h.swarm.GetContractStatus(ctx, r.Msg.GetContract())
	if most := int(r.Msg.GetMost()); err == nil && most > 0 {
		st.Recent = st.GetRecent()[max(0, len(st.GetRecent())-most):]
	}
	return answer(st, err)
}

func (h handler) CreateContract(ctx context.Context, r *connect.Request[swarmv1.CreateContractRequest]) (*connect.Response[swarmv1.CreateContractResponse], error) {
	view, err := h.swarm.CreateContract(ctx, r.Msg.GetContract(), r.Msg.GetRules())
	return answer(&swarmv1.CreateContractResponse{Contract: view}, ordered(r.Msg.GetOrder(), err))
}

func (h handler) ResetContract(ctx context.Context, r *connect.Request[swarmv1.ResetContractRequest]) (*connect.Response[swarmv1.ResetContractResponse], error) {
	run, err := h.swarm.ResetContract(ctx, r.Msg.GetContract(), r.Msg.GetForce())
	return answer(&swarmv1.ResetContractResponse{Run: run}, ordered(r.Msg.GetOrder(), err))
}

func (h handler) PauseContract(ctx context.Context, r *connect.Request[swarmv1.PauseContractRequest]) (*connect.Response[swarmv1.PauseContractResponse], error) {
	view, err := h.swarm.HaltContract(ctx, "pause", r.Msg.GetContract(), r.Msg.GetRun())
	return answer(&swarmv1.PauseContractResponse{Contract: view}, ordered(r.Msg.GetOrder(), err))
}

func (h handler) ResumeContract(ctx context.Context, r *connect.Request[swarmv1.ResumeContractRequest]) (*connect.Response[swarmv1.ResumeContractResponse], error) {
	view, err := h.swarm.HaltContract(ctx, "resume", r.Msg.GetContract(), r.Msg.GetRun())
	return answer(&swarmv1.ResumeContractResponse{Contract: view}, ordered(r.Msg.GetOrder(), err))
}

func (h handler) EndContract(ctx context.Context, r *connect.Request[swarmv1.EndContractRequest]) (*connect.Response[swarmv1.EndContractResponse], error) {
	view, err := h.swarm.HaltContract(ctx, "end", r.Msg.GetContract(), r.Msg.GetRun())
	return answer(&swarmv1.EndContractResponse{Contract: view}, ordered(r.Msg.GetOrder(), err))
}

func (h handler) DeleteContract(ctx context.Context, r *connect.Request[swarmv1.DeleteContractRequest]) (*connect.Response[swarmv1.DeleteContractResponse], error) {
	run, err := h.swarm.DeleteContract(ctx, r.Msg.GetContract(), r.Msg.GetForce())
	return answer(&swarmv1.DeleteContractResponse{Run: run}, ordered(r.Msg.GetOrder(), err))
}

// ordered is err, or that a request that changes the swarm carries no order.
func ordered(o *swarmv1.Order, err error) error {
	if err == nil && len(o.GetSignature()) == 0 {
		return errors.New("the request carries no order")
	}
	return err
}

func (h handler) ListModels(ctx context.Context, r *connect.Request[swarmv1.ListModelsRequest]) (*connect.Response[swarmv1.ListModelsResponse], error) {
	return answer(h.swarm.ListModels(ctx, r.Msg.GetContract()))
}

func (h handler) ReadLedger(ctx context.Context, r *connect.Request[swarmv1.ReadLedgerRequest], to *connect.ServerStream[swarmv1.LedgerChunk]) error {
	skip := r.Msg.GetOffset()
	n, err := h.swarm.ReadLedger(ctx, sender(func(b []byte) error {
		skipped := min(skip, uint64(len(b)))
		skip -= skipped
		if b = b[skipped:]; len(b) == 0 {
			return nil
		}
		return to.Send(&swarmv1.LedgerChunk{Data: b})
	}))
	if err == nil && r.Msg.GetOffset() > uint64(n) {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("no record of the ledger begins at this offset"))
	}
	return err
}

func (h handler) ReadBackup(ctx context.Context, _ *connect.Request[swarmv1.ReadBackupRequest], to *connect.ServerStream[swarmv1.BackupChunk]) error {
	_, err := h.swarm.ReadBackup(ctx, sender(func(b []byte) error { return to.Send(&swarmv1.BackupChunk{Data: b}) }))
	return err
}

// sender sends what is written.
type sender func([]byte) error

func (s sender) Write(b []byte) (int, error) { return len(b), s(b) }
