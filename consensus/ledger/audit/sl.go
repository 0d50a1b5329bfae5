package audit

import (
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
)

// signers are the roles whose request it may be, beside an operator's. An SL starts jobs beside the program that it runs itself.
func signers(request proto.Message) []identity.Role {
	switch request.(type) {
	case *swarmv1.AssignTaskRequest, *swarmv1.CreateTaskRequest, *swarmv1.FinaliseTaskRequest, *swarmv1.DeleteTaskRequest, *swarmv1.CancelAssignmentRequest:
		return []identity.Role{identity.RoleSL}
	}
	return nil
}

// mayAsk reports whether whoever signed a request may ask for that: jobs beside an SL are that one's, and it has no others. Whether what it finalises,
// deletes or ends is its own ofItsOwn holds.
func mayAsk(by identity.ID, request proto.Message) bool {
	sl := by.Role() == identity.RoleSL
	switch r := request.(type) {
	case *swarmv1.AssignTaskRequest:
		return sl == (r.GetBeside() != "") && (!sl || by.MaySpeakFor(r.GetBeside()))
	case *swarmv1.CreateTaskRequest:
		return !sl || r.GetType() == task.RunJob
	}
	return true
}

// ofItsOwn holds what an SL finalises, deletes or ends to who made it or asked for it. A ledger that begins late may lack that.
func (k *tasks) ofItsOwn(o *ledger.Order, by string) {
	if id, err := identity.ParseIDString(o.By); err == nil && id.Role() == identity.RoleSL && by != "" && by != o.By {
		k.bad("order.by", "SL %.160s asked for this, and it is of %.160s", o.By, by)
	}
}
