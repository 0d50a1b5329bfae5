package client

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// TestAHostCanReadAllThatItMayBeShown: operators of several trust domains can't make a host deaf by what they say on its parts.
func TestAHostCanReadAllThatItMayBeShown(t *testing.T) {
	signed := func(request int) *ledger.Order {
		return &ledger.Order{Request: make([]byte, request), Nonce: make([]byte, 64), Signature: make([]byte, state.MaxSignature), Chain: [][]byte{make([]byte, state.MaxChainBytes)}}
	}
	var all []task.Hosted
	for range task.MaxLive {
		h := task.Hosted{Request: task.Request{ID: "18446744073709551615", By: strings.Repeat("b", 2048), Task: strings.Repeat("t", 128)}, Order: signed(state.MaxOrderRequest)}
		for i := range task.MaxMembers {
			h.Hosts = append(h.Hosts, fmt.Sprintf("%063d", i))
		}
		for range task.MaxHosted {
			h.Members = append(h.Members, task.HostedMember{Index: task.MaxMembers, Group: strings.Repeat("g", 63), Peers: task.MaxMembers, State: task.Prepared})
		}
		all = append(all, h)
	}
	const word = 4 << 10 // bytes of a request
	for said := 0; said < task.MaxApprovalBytes; said += word + state.MaxChainBytes {
		h := &all[said%len(all)]
		h.Approvals = append(h.Approvals, task.Approval{Order: signed(word)})
	}
	if n := proto.Size(&swarmv1.HostedAssignments{Assignments: onwire.Hosted(all)}); n > maxTasks || n < maxMessage {
		t.Errorf("a host may be shown %d bytes, and reads %d", n, maxTasks)
	}
}
