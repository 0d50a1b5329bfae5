package state

import (
	"encoding/json"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Bounds of an order.
const (
	MaxOrderRequest = 64 << 10
	maxNonce        = 64
)

// Ordered is a command that an operator asks for. The raft leader proposes it only with an order that the operator has
// signed; logs of before orders were signed have it without.
type Ordered interface {
	Command
	// OrderOf returns the operator's order; nil: there is none.
	OrderOf() *ledger.Order
}

var _ = []Ordered{
	CreateContract{},
	ResetContract{},
	DeleteContract{},
	ForgetNode{},
	BanNode{},
	UnbanNode{},
	AdmitNode{},
	InviteNode{},
	PauseContract{},
	ResumeContract{},
	EndContract{},
	CreateTask{},
	EditTask{},
	FinaliseTask{},
	DeleteTask{},
	CreateTaskrunner{},
	ResetTaskrunner{},
	DeleteTaskrunner{},
	AssignTask{},
	CancelAssignment{},
	ApproveTask{},
	RefuseTask{},
	SetRights{},
}

// OrderOf implements Ordered.
func (o CreateContract) OrderOf() *ledger.Order { return o.Order }

// OrderOf implements Ordered.
func (r ResetContract) OrderOf() *ledger.Order { return r.Order }

// OrderOf implements Ordered.
func (d DeleteContract) OrderOf() *ledger.Order { return d.Order }

// OrderOf implements Ordered.
func (c ForgetNode) OrderOf() *ledger.Order { return c.Order }

// OrderOf implements Ordered.
func (c BanNode) OrderOf() *ledger.Order { return c.Order }

// OrderOf implements Ordered.
func (c UnbanNode) OrderOf() *ledger.Order { return c.Order }

// CheckOrder holds an order to its bounds. Whether it is genuine the raft leader has found out before.
func CheckOrder(o *ledger.Order) error {
	head := o.Witnessed.Length == 0 && o.Witnessed.Hash == "" || o.Witnessed.Length > 0 && validHex(o.Witnessed.Hash, 64)
	switch {
	case len(o.By) > maxSPIFFEID || !printable(o.By) || len(o.Method) > maxShort || !printable(o.Method) || !head:
		return reject(ReasonBadCommand, "", "bad order: who asks, for what, or on which ledger is out of bounds")
	case len(o.Request) > MaxOrderRequest || !json.Valid(o.Request):
		return reject(ReasonBadCommand, "ask for less at a time", "the request of an order has %d bytes, at most %d of JSON", len(o.Request), MaxOrderRequest)
	case len(o.Nonce) > maxNonce || len(o.Signature) > MaxSignature || len(o.Chain) > MaxChain || total(o.Chain) > MaxChainBytes:
		return reject(ReasonBadCommand, "give the SVID at most 4 certificates of 16 KiB together", "an order has a chain of %d certificates and %d bytes", len(o.Chain), total(o.Chain))
	}
	return nil
}
