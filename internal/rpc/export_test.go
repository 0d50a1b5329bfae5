package rpc

import (
	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/rpc/quota"
)

// What the tests of package rpc_test must see.
var (
	NodeFromProto   = nodeFromProto
	TermsFromProto  = termsFromProto
	ReportFromProto = reportFromProto
	ToConnect       = toConnect
	Spoken          = spoken
)

// Rows returns error, reason and code of every row, in order.
func Rows() (errs []error, reasons []string, codes []connect.Code) {
	for _, r := range rows() {
		errs, reasons, codes = append(errs, r.match), append(reasons, r.reason), append(codes, r.code)
	}
	return errs, reasons, codes
}

// OwnErrors are the sentinels of this package: a new one must be added here and in the list of rows.
func OwnErrors() []error {
	return []error{
		ErrNoCertificate, ErrCertificateExpired, ErrRoleDenied, ErrWrongSwarm, ErrSwarmIDMissing, ErrNoSwarm,
		ErrTokenRefused, ErrNonceRefused, ErrSignature, ErrOrderMissing, ErrOrderRefused, ErrPeerID, ErrRoleMismatch, ErrNameMismatch, ErrNotYours,
		ErrBadRequest, ErrElsewhere, ErrStopping,
	}
}

// RatesOf returns what has been taken at a server.
func RatesOf(s *Server) *quota.Rates { return s.rates }

// Charged returns what the calls that are served now have taken, in bytes.
func Charged(s *Server) int64 { return s.entrance.budget.Used() }

// ChargedToNodes returns what small calls with a node's token have taken, in bytes.
func ChargedToNodes(s *Server) int64 { return s.entrance.perNode.Used() }

// FitLinks is what one answer has of what nodes say of their connections.
func FitLinks(all []*swarmv1.NodeLinks) []*swarmv1.NodeLinks {
	room := roomForLinks()
	var out []*swarmv1.NodeLinks
	for _, l := range all {
		out = append(out, room.fit(l))
	}
	return out
}
