package client

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/pause"
)

const (
	// peekTimeout bounds the question to one SN, which may wait two seconds for a contract that it does not know.
	peekTimeout = 5 * time.Second
	// settles is how long SNs may differ because one of them is a moment behind.
	settles = 3 * time.Second
	// maxCompared bounds how many SNs are asked.
	maxCompared = 8
)

// Compare asks other SNs than the one in use for their view of a contract, nil if they know neither that nor our node. One that is
// the same, as same tells, is enough. If not, all are asked: when more show another view, or as many and tie is set, the client goes to one of
// those, and Compare returns the SN that it has left, else "". It blocks.
func (c *Client) Compare(ctx context.Context, contract string, same func(*swarmv1.ContractView) bool, tie bool) string {
	used, _ := c.dir.where()
	others := c.SNs()[1:]
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:min(len(others), maxCompared)]
	differs := slices.ContainsFunc(others, func(sn string) bool {
		v, answers := peek(ctx, c, sn, contract)
		return answers && !same(v)
	})
	if !differs || pause.For(ctx, settles) != nil {
		return ""
	}
	with := 1 // its own
	var against []string
	for _, sn := range others {
		switch v, answers := peek(ctx, c, sn, contract); {
		case !answers:
		case same(v):
			with++
		default:
			against = append(against, sn)
		}
	}
	if len(against) == 0 || len(against) < with || len(against) == with && !tie || !c.dir.leave(used, against[0]) {
		return ""
	}
	return used
}

// peek returns the view of one SN, nil if it knows neither the contract nor our node; false if it gives no answer.
func peek(ctx context.Context, c *Client, sn, contract string) (*swarmv1.ContractView, bool) {
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	s, err := c.connections.stubs(sn)
	if err != nil {
		return nil, false
	}
	req := connect.NewRequest(&swarmv1.WatchContractRequest{Contract: contract})
	c.setHeaders(req.Header(), callOptions{asNode: true})
	stream, err := service[swarmv1connect.SessionServiceClient](s, false).WatchContract(ctx, req)
	if err != nil {
		return nil, refusedUs(sn, err)
	}
	defer func() { _ = stream.Close() }() // its error was returned by Err
	if !stream.Receive() {
		return nil, stream.Err() != nil && refusedUs(sn, stream.Err())
	}
	return stream.Msg(), c.checkSwarm(sn, stream.ResponseHeader()) == nil
}

// refusedUs tells of an SN that does not know what it would if another one had spoken the truth.
func refusedUs(sn string, err error) bool {
	switch sortOut(sn, err).Reason {
	case ReasonTokenRefused, ReasonNodeLeft, ReasonContractUnknown:
		return true
	}
	return false
}
