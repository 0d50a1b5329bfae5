package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

// ledgerSilence is how long an SN may leave a reader of the ledger waiting for the next bytes.
const ledgerSilence = 30 * time.Second

// ReadLedger writes the swarm's ledger to w, whole records in order, and returns how many bytes. When an SN dies within it
// another one goes on: the ledger is the same on all. It ends where the SN's copy ends, or when ctx does.
func (c Operator) ReadLedger(ctx context.Context, w io.Writer) (int64, error) {
	return c.ReadLedgerFrom(ctx, 0, w)
}

// ReadLedgerFrom is ReadLedger from an offset in bytes on, at which a record begins or the ledger ends: others are refused as a bad request.
func (c Operator) ReadLedgerFrom(ctx context.Context, offset int64, w io.Writer) (written int64, err error) {
	if err := c.ready(ctx); err != nil {
		return 0, err
	}
	var failed *writeError // no other SN helps
	err = c.try(ctx, callOptions{}, func(ctx context.Context, sn string) error {
		to, err := c.readLedgerAt(ctx, sn, w, offset+written)
		written = to - offset
		if errors.As(err, &failed) {
			return nil
		}
		return err
	})
	if failed != nil {
		return written, fmt.Errorf("write the ledger: %w", failed.error)
	}
	return written, err
}

// writeError is an error of whoever takes the ledger.
type writeError struct{ error }

// readLedgerAt goes on at an offset on one SN and returns the new one.
func (c Operator) readLedgerAt(ctx context.Context, sn string, w io.Writer, offset int64) (int64, error) {
	s, err := c.connections.stubs(sn)
	if err != nil {
		return offset, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(ledgerSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	req := connect.NewRequest(&swarmv1.ReadLedgerRequest{Offset: uint64(offset)}) //nolint:gosec // never negative
	c.setHeaders(req.Header(), callOptions{})
	stream, err := service[swarmv1connect.LedgerServiceClient](s, false).ReadLedger(ctx, req)
	if err != nil {
		return offset, whyEnded(ctx, err)
	}
	defer func() { _ = stream.Close() }() // its error was returned by Err
	checked := false
	for stream.Receive() {
		silence.Reset(ledgerSilence)
		if !checked {
			if err := c.checkSwarm(sn, stream.ResponseHeader()); err != nil {
				return offset, err
			}
			checked = true
		}
		n, err := w.Write(stream.Msg().GetData())
		offset += int64(n)
		if err != nil {
			return offset, &writeError{err}
		}
	}
	if err := stream.Err(); err != nil {
		return offset, whyEnded(ctx, err)
	}
	return offset, nil
}
