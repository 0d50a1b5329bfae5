package audit

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
)

// orders are what operators have asked for so far.
type orders struct {
	*findings
	past        *past
	authorities *authorities
	nonces      map[string]uint64 // of orders, with the number of the record
	first       uint64            // the first record with an order; 0: there was none
}

// asked judges what an operator asked for, and reads it into request, whose method it must name. It returns false if there is
// nothing to hold the record to. A record without an order is of a time before orders were signed; once one is, all must be.
func (s *orders) asked(o *ledger.Order, request proto.Message) bool {
	if o == nil {
		if s.first > 0 {
			s.bad("order", "no operator signed it, and since record %d all changes by operators are signed", s.first)
		}
		s.report.Unsigned++
		return false
	}
	if s.first == 0 {
		s.first = s.seq
	}
	s.report.Orders++
	if method := strings.TrimSuffix(string(request.ProtoReflect().Descriptor().Name()), "Request"); o.Method != method {
		s.bad("order.method", "%q does not make a record of this kind", o.Method)
		return false
	}
	if before := s.nonces[string(o.Nonce)]; before > 0 || len(o.Nonce) == 0 {
		s.bad("order.nonce", "it was used in record %d: what was asked once was done twice", before)
	}
	s.nonces[string(o.Nonce)] = s.seq
	if o.Witnessed.Length > 0 || o.Witnessed.Hash != "" {
		s.past.witness("order.witnessed", o.Witnessed)
	}
	s.prove(o, signers(request))
	read := s.read(o, request)
	if id, err := identity.ParseIDString(o.By); read && err == nil && !mayAsk(id, request) {
		s.bad("order.by", "%.160s may not ask for this: an SL asks for jobs beside itself, and nobody else does", o.By)
	}
	return read
}

// read reads what an operator asked for.
func (s *orders) read(o *ledger.Order, request proto.Message) bool {
	if err := protojson.Unmarshal(o.Request, request); err != nil {
		s.bad("order.request", "%v", err)
		return false
	}
	return true
}

// prove holds an order to its signature, and that to the authorities of its time. Nodes of the roles that are given may have signed it too.
func (s *orders) prove(o *ledger.Order, also []identity.Role) {
	if s.opts.Unsigned {
		return
	}
	cert := s.authorities.operator("order.", o.Chain, o.By, also...)
	if cert == nil {
		return
	}
	message := identity.OrderMessage(identity.Order{
		SwarmID: s.report.SwarmID, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
	})
	if identity.VerifySVIDSignature(cert, message, o.Signature) != nil {
		s.bad("order.signature", "the key of %s did not sign this request", o.By)
	}
}
