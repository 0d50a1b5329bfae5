package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// Host is a client that speaks for a host of tasks: it has registered in the role SWOP, with an offer.
type Host struct{ *Client }

// Report is Client.Report for a host, with what it says of its members, of task.MaxHosted at most: of all that are not cleaned up, and of each
// that is until WatchAssignments shows it no more. The node key signs it, so that SNs that pass it on can't change it.
func (h Host) Report(ctx context.Context, req *swarmv1.ReportRequest, members []task.MemberReport) (*swarmv1.ReportResponse, error) {
	if len(members) > 0 {
		req = proto.CloneOf(req)
		req.Members = onwire.Members(members)
		var err error
		if req.MembersSignature, err = h.registrar.signMembers(req.GetMembers()); err != nil {
			return nil, err
		}
	}
	return h.Client.Report(ctx, req)
}

// CheckReader fails if the rights of the swarm keep an operator from a log of our node.
func (h Host) CheckReader(ctx context.Context, part *swarmv1.LogPart, by string) error {
	_, err := call(ctx, h.Client, callOptions{asNode: true}, swarmv1connect.RightsServiceClient.CheckReader, &swarmv1.CheckReaderRequest{Part: part, SpiffeId: by})
	return err
}

// CheckForward fails if the rights of the swarm keep an operator from connections to members of an assignment.
func (h Host) CheckForward(ctx context.Context, assignment, by string) error {
	_, err := call(ctx, h.Client, callOptions{asNode: true}, swarmv1connect.RightsServiceClient.CheckForward, &swarmv1.CheckForwardRequest{Assignment: assignment, SpiffeId: by})
	return err
}

// World returns where all members of an epoch of an assignment are, by index, our own node where it has registered, and each other
// at an address that its host has signed, as all are that members have of their own. It fails while the SN that leads shows another epoch.
func (h Host) World(ctx context.Context, id string, epoch uint32) ([]task.Site, error) {
	res, err := call(ctx, h.Client, callOptions{}, swarmv1connect.TaskServiceClient.GetAssignment, &swarmv1.GetAssignmentRequest{Id: id})
	if err != nil {
		return nil, err
	}
	a := res.GetAssignment()
	sites, is, err := onwire.World(a, id, epoch)
	if err == nil && !is {
		err = fmt.Errorf("assignment %s is in epoch %d, not in %d", id, a.GetEpoch(), epoch)
	}
	if err == nil {
		err = h.prove(ctx, sites, a)
	}
	if err != nil {
		return nil, err
	}
	return sites, nil
}

// signMembers signs for our node what it says of its members, of each for the ledger, and of all for the SN that leads.
func (r *registrar) signMembers(members []*swarmv1.MemberReport) ([]byte, error) {
	r.mu.Lock()
	reg := r.speaker
	r.mu.Unlock()
	if reg == nil {
		return nil, errors.New("sign report of members: no node has registered")
	}
	for _, x := range members {
		var err error
		if x.Signature, err = reg.Key.Sign(onwire.MemberMessage(r.client.PinnedSwarmID(), reg.Node.Name, x)); err != nil {
			return nil, fmt.Errorf("sign report of a member: %w", err)
		}
		if x.GetAddress() == "" {
			continue
		}
		if x.AddressSignature, err = reg.Key.Sign(onwire.MemberAddressMessage(r.client.PinnedSwarmID(), reg.Node.Name, x)); err != nil {
			return nil, fmt.Errorf("sign the address of a member: %w", err)
		}
	}
	signature, err := reg.Key.Sign(onwire.MembersMessage(r.client.PinnedSwarmID(), reg.Node.Name, members))
	if err != nil {
		return nil, fmt.Errorf("sign report of members: %w", err)
	}
	return signature, nil
}

// WatchAssignments calls fn with all that our node is to know of assignments as a host, first what it is now and then each time it is shown
// anew, until ctx ends, the node is refused, or fn returns an error, which is returned as it is. What runs on the host and is in none of them
// is to end. It changes SNs by itself, and drops what is older than what was seen before, unless SNs lag behind that for long and none
// confirms it. No SN proves who asked for an assignment: the order that comes along does. fn runs on the caller's goroutine; what is shown
// while it runs long is skipped, not queued.
func (h Host) WatchAssignments(ctx context.Context, fn func([]task.Hosted) error) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	w := &hostWatch{newest: newest{client: h.Client}, fn: fn}
	for {
		err := h.try(ctx, callOptions{asNode: true}, func(ctx context.Context, sn string) error { return followStream(ctx, h.Client, sn, w.open, w.take) })
		if w.err != nil {
			return w.err
		}
		if err != nil {
			return err
		}
	}
}

type hostWatch struct {
	newest

	fn    func([]task.Hosted) error
	index uint64 // of what was seen last
	err   error  // what fn returned: ends everything
}

func (w *hostWatch) open(ctx context.Context, s *stubs) (*connect.ServerStreamForClient[swarmv1.HostedAssignments], error) {
	req := connect.NewRequest(&swarmv1.WatchAssignmentsRequest{})
	w.client.setHeaders(req.Header(), callOptions{asNode: true})
	return service[swarmv1connect.TaskServiceClient](s, false).WatchAssignments(ctx, req)
}

// take hands on what is newer. What fn returned is in w.err.
func (w *hostWatch) take(sn string, m *swarmv1.HostedAssignments, lagging time.Duration) (bool, error) {
	all, err := onwire.FromHosted(m.GetAssignments())
	if err != nil {
		w.client.cfg.Log.Warn("an SN showed assignments that can't be: another one is asked", "sn", sn, "err", err)
		return false, err
	}
	news, heard, err := w.judge(sn, func() int { return order(m.GetIndex(), w.index) }, lagging)
	if err != nil || !news {
		return heard, err
	}
	w.index = m.GetIndex()
	if w.err = w.fn(all); w.err != nil {
		return true, errAnew
	}
	return true, nil
}
