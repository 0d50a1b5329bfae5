package embedded

import (
	"context"
	"log/slog"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// securityHeader must accompany every call, says the SPIFFE Workload API §3: it keeps a request that was smuggled
// through some other protocol's client from being answered.
const securityHeader = "workload.spiffe.io"

// workloadAPI serves one socket. The JWT and WIT methods answer Unimplemented.
type workloadAPI struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	ca     *authorityCA
	paths  []string
	ttl    time.Duration
	served *served
	log    *slog.Logger
}

// FetchX509SVID sends the socket's SVIDs now and new ones whenever half of their life is over.
func (w *workloadAPI) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	ctx := stream.Context()
	if err := checkHeader(ctx); err != nil {
		return err
	}
	w.served.workloads.Add(1)
	defer w.served.workloads.Add(-1)
	for {
		resp := &workload.X509SVIDResponse{}
		renewAt := time.Now().Add(w.ttl / 2)
		for _, path := range w.paths {
			s, err := w.ca.issue(path, w.ttl, time.Now())
			if err != nil {
				return status.Error(codes.Internal, err.Error())
			}
			renewAt = s.renewAt
			resp.Svids = append(resp.Svids, &workload.X509SVID{SpiffeId: s.id, X509Svid: s.cert, X509SvidKey: s.key, Bundle: w.ca.cert.Raw})
		}
		w.served.issued.Add(uint64(len(resp.Svids)))
		if err := stream.Send(resp); err != nil {
			return err
		}
		w.log.Debug("SVIDs issued", "paths", w.paths, "renew_at", renewAt)
		timer := time.NewTimer(time.Until(renewAt))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// FetchX509Bundles sends the trust bundle and keeps the stream open; the CA does not change while the authority runs.
func (w *workloadAPI) FetchX509Bundles(_ *workload.X509BundlesRequest, stream grpc.ServerStreamingServer[workload.X509BundlesResponse]) error {
	ctx := stream.Context()
	if err := checkHeader(ctx); err != nil {
		return err
	}
	bundles := map[string][]byte{w.ca.domain.IDString(): w.ca.cert.Raw}
	if err := stream.Send(&workload.X509BundlesResponse{Bundles: bundles}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func checkHeader(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(securityHeader); len(v) != 1 || v[0] != "true" {
		return status.Error(codes.InvalidArgument, "security header missing from request: send metadata workload.spiffe.io: true")
	}
	return nil
}
