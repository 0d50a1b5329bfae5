package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/pause"
)

// orderTries is how often an order is signed anew when the leader's nonce was lost with its leadership, or used up by a try
// whose answer was lost.
const orderTries = 5

// maxChain is how many of the SVID's certificates go along.
const maxChain = 4

// ordered makes a call that changes the swarm: signed by this client's SVID. request must not hold an order, and has a field for it.
func ordered[S, Req, Res any](
	ctx context.Context, c Operator, opts callOptions, m func(S, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), request *Req,
) (*Res, error) {
	msg, ok := any(request).(proto.Message)
	if !ok {
		return nil, errors.New("sign request: it is no message")
	}
	field := msg.ProtoReflect().Descriptor().Fields().ByName("order")
	if field == nil {
		return nil, errors.New("sign request: it has no field for an order")
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err == nil {
		text, err = json.Marshal(json.RawMessage(text)) // in the form that a ledger keeps
	}
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	name := strings.TrimSuffix(string(msg.ProtoReflect().Descriptor().Name()), "Request")
	opts.signed = true
	for try := 1; ; try++ {
		o, err := c.sign(ctx, name, text)
		if err != nil {
			return nil, err
		}
		msg.ProtoReflect().Set(field, protoreflect.ValueOfMessage(o.ProtoReflect()))
		res, err := call(ctx, c.Client, opts, m, request)
		if Reason(err) != ReasonNonceRefused || try == orderTries || pause.For(ctx, jitter(firstDelay)) != nil {
			return res, err
		}
	}
}

// sign makes an order with a new nonce of the leader's.
func (c Operator) sign(ctx context.Context, method string, request []byte) (*swarmv1.Order, error) {
	if c.cfg.Source == nil {
		return nil, &Error{Message: "to change the swarm takes an identity to sign with"}
	}
	challenge, err := call(ctx, c.Client, callOptions{}, swarmv1connect.NodeServiceClient.Challenge, &swarmv1.ChallengeRequest{Order: true})
	if err != nil {
		return nil, err
	}
	svid, err := c.cfg.Source.GetX509SVID()
	if err != nil {
		return nil, fmt.Errorf("sign request: get own SVID: %w", err)
	}
	o := &swarmv1.Order{
		Request: request, Nonce: challenge.GetNonce(), LedgerLength: challenge.GetLedgerLength(), LedgerHead: challenge.GetLedgerHead(),
		AskedUnixMs: time.Now().UnixMilli(), Chain: identity.RawChain(svid)[:min(len(svid.Certificates), maxChain)],
	}
	o.Signature, err = identity.SignWithSVID(svid, identity.OrderMessage(identity.Order{
		SwarmID: c.PinnedSwarmID(), Method: method, Request: request, Nonce: o.GetNonce(), Ledger: o.GetLedgerHead(), Length: o.GetLedgerLength(),
		AskedMS: o.GetAskedUnixMs(),
	}))
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return o, nil
}
