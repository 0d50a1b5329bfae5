package rpc

import (
	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/identity"
)

// What the tests of package rpc_test must see.
var (
	NodeToProto       = nodeToProto
	NodeFromProto     = nodeFromProto
	TermsToProto      = termsToProto
	TermsFromProto    = termsFromProto
	ReportFromProto   = reportFromProto
	ProgressToProto   = progressToProto
	SessionToProto    = sessionToProto
	PlanToProto       = planToProto
	CommittedToProto  = committedToProto
	ParticipantToWire = participantToProto
	ViewToProto       = viewToProto
	SummaryToProto    = summaryToProto
	NewRates          = newRates
	ToConnect         = toConnect
	Clip              = clip
	Spoken            = spoken
)

// Rows returns error, reason and code of every row, in order.
func Rows() (errs []error, reasons []string, codes []connect.Code) {
	for _, r := range rows() {
		errs, reasons, codes = append(errs, r.match), append(reasons, r.reason), append(codes, r.code)
	}
	return errs, reasons, codes
}

func (r *rates) TakeLayout(node string, bytes int) error { return r.takeLayout(node, bytes) }
func (r *rates) TakeProposal(node string) error          { return r.takeProposal(node) }
func (r *rates) Size() int                               { return len(r.taken) }

// TakeRegistration counts that of a new key.
func (r *rates) TakeRegistration(id identity.ID, peerID string) error {
	return r.takeRegistration(id, peerID, false)
}

// OwnErrors are the sentinels of this package: a new one must be added here and in the list of rows.
func OwnErrors() []error {
	return []error{
		ErrNoCertificate, ErrCertificateExpired, ErrRoleDenied, ErrWrongSwarm, ErrSwarmIDMissing, ErrNoSwarm,
		ErrTokenRefused, ErrNonceRefused, ErrSignature, ErrOrderMissing, ErrOrderRefused, ErrPeerID, ErrRoleMismatch, ErrNameMismatch, ErrNotYours,
		ErrBadRequest, ErrTooFast, ErrBusy, ErrElsewhere, ErrStopping,
	}
}

// RatesOf returns what has been taken at a server.
func RatesOf(s *Server) *rates { return s.rates }

// Charged returns what the calls that are served now have taken, in bytes.
func Charged(s *Server) int64 {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.budget.used
}

// ChargedToNodes returns what small calls with a node's token have taken, in bytes.
func ChargedToNodes(s *Server) int64 {
	s.perNode.mu.Lock()
	defer s.perNode.mu.Unlock()
	return s.perNode.used
}
