// Package onwire makes the API's messages of what a host sees and says of assignments, and reads them back. What it reads is held to its
// bounds.
package onwire

import (
	"errors"
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// Methods of the API whose requests operators sign and hosts hold to their signature.
const (
	methodAssign  = "AssignTask"
	methodApprove = "ApproveTask"
	methodRefuse  = "RefuseTask"
)

// Bounds of an operator's order, as the state has them; lengths are in bytes.
const (
	maxRequest = 64 << 10
	maxChain   = 16 << 10 // all certificates together
	maxCerts   = 4
	maxShort   = 1024 // of a signature, a nonce, a hash, a SPIFFE ID
)

// errBounds reports what no SN that keeps to the rules sends.
var errBounds = errors.New("out of bounds")

// Request shows what an assignment is asked to be.
func Request(q *task.Request) *swarmv1.Assignment {
	out := &swarmv1.Assignment{
		Id: q.ID, Task: q.Task, Digest: q.Digest, Taskrunner: q.Taskrunner, Hosts: q.Hosts, InOrder: q.InOrder, Retries: q.Retries,
		TimeoutMs: q.TimeoutMS, ExpiresUnixMs: q.ExpiresMS, By: q.By, Joins: q.Joins,
		Done: q.Done, ReadyMs: q.ReadyMS, LivesMs: q.LivesMS, Together: q.Together, GraceMs: q.GraceMS, Stops: q.Stops, Beside: q.Beside,
	}
	for _, g := range q.Groups {
		out.Groups = append(out.Groups, &swarmv1.TaskGroup{Name: g.Name, Peers: g.Peers, Least: g.Least, Needs: needsOf(g.Needs), Ports: g.Ports, FirstPorts: g.FirstPorts})
	}
	return out
}

// needsOf are the needs of a member as a message; nil: it says of none.
func needsOf(n ledger.Needs) *swarmv1.Needs {
	if n == (ledger.Needs{}) {
		return nil
	}
	return &swarmv1.Needs{MilliCpu: n.MilliCPU, MemoryBytes: n.Memory, Gpus: n.GPUs, DiskBytes: n.Disk}
}

// Groups reads the groups of a request. The state holds them to their bounds.
func Groups(all []*swarmv1.TaskGroup) (groups []task.Group) {
	for _, g := range all {
		n := g.GetNeeds()
		groups = append(groups, task.Group{Name: g.GetName(), Peers: g.GetPeers(), Least: g.GetLeast(), Needs: ledger.Needs{
			MilliCPU: n.GetMilliCpu(), Memory: n.GetMemoryBytes(), GPUs: n.GetGpus(), Disk: n.GetDiskBytes(),
		}, Ports: g.GetPorts(), FirstPorts: g.GetFirstPorts()})
	}
	return groups
}

// Hosted shows assignments to one of their hosts.
func Hosted(all []task.Hosted) (out []*swarmv1.HostedAssignment) {
	for i := range all {
		h := &all[i]
		a := Request(&h.Request)
		a.Phase, a.Epoch = string(h.Phase), h.Epoch
		one := &swarmv1.HostedAssignment{Assignment: a, Order: orderToProto(h.Order)}
		for _, m := range h.Members {
			one.Members = append(one.Members, &swarmv1.HostedMember{
				Index: m.Index, Group: m.Group, Peers: m.Peers, State: string(m.State), Start: m.Start, Stop: m.Stop,
			})
		}
		for _, x := range h.Approvals {
			one.Approvals = append(one.Approvals, &swarmv1.HostedApproval{Refuse: x.Refuse, Order: orderToProto(x.Order)})
		}
		out = append(out, one)
	}
	return out
}

// Asked reads what an operator has signed of an assignment.
func Asked(m *swarmv1.AssignTaskRequest) task.Request {
	return task.Request{
		ID: m.GetId(), Task: m.GetTask(), Digest: m.GetDigest(), Taskrunner: m.GetTaskrunner(), Hosts: m.GetHosts(), Groups: Groups(m.GetGroups()),
		InOrder: m.GetInOrder(), Retries: m.GetRetries(), TimeoutMS: m.GetTimeoutMs(), ExpiresMS: m.GetExpiresUnixMs(),
		Joins: m.GetJoins(), JobTerms: JobTerms(m),
	}
}

// terms are those of a job, in a request and in an assignment.
type terms interface {
	ends
	GetTogether() bool
	GetBeside() string
}

// ends are those that say when a job ends.
type ends interface {
	GetDone() string
	GetReadyMs() int64
	GetLivesMs() int64
	GetGraceMs() int64
	GetStops() bool
}

// JobTerms reads what a job is asked to be beside that.
func JobTerms(m terms) task.JobTerms {
	return task.JobTerms{Done: m.GetDone(), ReadyMS: m.GetReadyMs(), LivesMS: m.GetLivesMs(), Together: m.GetTogether(), GraceMS: m.GetGraceMs(), Stops: m.GetStops(), Beside: m.GetBeside()}
}

func orderToProto(o *ledger.Order) *swarmv1.Order {
	if o == nil {
		return nil
	}
	return &swarmv1.Order{
		Request: o.Request, Nonce: o.Nonce, LedgerLength: o.Witnessed.Length, LedgerHead: o.Witnessed.Hash, AskedUnixMs: o.AskedMS,
		Signature: o.Signature, Chain: o.Chain,
	}
}

// FromHosted reads what an SN shows to a host. The order is as the operator signed it, if the SN is honest: who takes its word verifies that.
func FromHosted(all []*swarmv1.HostedAssignment) ([]task.Hosted, error) {
	if len(all) > task.MaxLive {
		return nil, fmt.Errorf("%w: %d assignments, at most %d", errBounds, len(all), task.MaxLive)
	}
	out := make([]task.Hosted, 0, len(all))
	for _, x := range all {
		h, err := hosted(x)
		if err != nil {
			return nil, fmt.Errorf("assignment %.20q: %w", x.GetAssignment().GetId(), err)
		}
		out = append(out, h)
	}
	return out, nil
}

func hosted(x *swarmv1.HostedAssignment) (task.Hosted, error) {
	a := x.GetAssignment()
	h := task.Hosted{Request: task.Request{
		ID: a.GetId(), Task: a.GetTask(), Digest: a.GetDigest(), Taskrunner: a.GetTaskrunner(), Hosts: a.GetHosts(), Groups: Groups(a.GetGroups()),
		InOrder: a.GetInOrder(), Retries: a.GetRetries(), TimeoutMS: a.GetTimeoutMs(), ExpiresMS: a.GetExpiresUnixMs(), By: a.GetBy(),
		Joins: a.GetJoins(), JobTerms: JobTerms(a),
	}, Phase: task.Phase(a.GetPhase()), Epoch: a.GetEpoch()}
	if err := h.Check(); err != nil {
		return task.Hosted{}, fmt.Errorf("%w: %w", errBounds, err)
	}
	if h.Digest == "" || !naming.ValidContract(h.Task) || h.Taskrunner != "" && !naming.ValidContract(h.Taskrunner) {
		return task.Hosted{}, fmt.Errorf("%w: task %.128q of digest %.64q on taskrunner %.128q", errBounds, h.Task, h.Digest, h.Taskrunner)
	}
	if len(x.GetMembers()) > task.MaxMembers || !slices.Contains([]task.Phase{task.Waiting, task.Preparing, task.Running, task.Ending}, h.Phase) {
		return task.Hosted{}, fmt.Errorf("%w: phase %.20q with %d members", errBounds, h.Phase, len(x.GetMembers()))
	}
	for _, m := range x.GetMembers() {
		one := task.HostedMember{
			Index: m.GetIndex(), Group: m.GetGroup(), Peers: m.GetPeers(), State: task.State(m.GetState()), Start: m.GetStart(), Stop: m.GetStop(),
		}
		known := slices.ContainsFunc(h.Groups, func(g task.Group) bool { return g.Name == one.Group })
		if one.Index >= task.MaxMembers || one.Peers == 0 || one.Peers > task.MaxMembers || !known || !one.State.Known() {
			return task.Hosted{}, fmt.Errorf("%w: member %d of group %.64q that is %.20q", errBounds, one.Index, one.Group, one.State)
		}
		h.Members = append(h.Members, one)
	}
	var err error
	if h.Approvals, err = approvals(x.GetApprovals()); err == nil {
		h.Order, err = orderFromProto(x.GetOrder(), methodAssign, h.By)
	}
	return h, err
}

func approvals(all []*swarmv1.HostedApproval) (out []task.Approval, err error) {
	if len(all) > task.MaxApprovals {
		return nil, fmt.Errorf("%w: %d approvals, at most %d", errBounds, len(all), task.MaxApprovals)
	}
	for _, x := range all {
		one, method := task.Approval{Refuse: x.GetRefuse()}, methodApprove
		if one.Refuse {
			method = methodRefuse
		}
		if one.Order, err = orderFromProto(x.GetOrder(), method, ""); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// orderFromProto reads what an operator signed. Who that was does not stand in it: the certificates prove it, or do not.
func orderFromProto(o *swarmv1.Order, method, by string) (*ledger.Order, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // nobody signed it
	}
	chain := 0
	for _, cert := range o.GetChain() {
		chain += len(cert)
	}
	if len(o.GetRequest()) > maxRequest || len(o.GetChain()) > maxCerts || chain > maxChain || len(o.GetNonce()) > maxShort ||
		len(o.GetLedgerHead()) > maxShort || len(o.GetSignature()) > maxShort {
		return nil, fmt.Errorf("%w: order with a request of %d bytes and certificates of %d", errBounds, len(o.GetRequest()), chain)
	}
	return &ledger.Order{
		By: by, Method: method, Request: o.GetRequest(), AskedMS: o.GetAskedUnixMs(), Nonce: o.GetNonce(),
		Witnessed: ledger.Witness{Length: o.GetLedgerLength(), Hash: o.GetLedgerHead()}, Signature: o.GetSignature(), Chain: o.GetChain(),
	}, nil
}
