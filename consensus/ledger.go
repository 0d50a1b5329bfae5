package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/store"
)

// maxLedgerChunk bounds what one answer carries of the ledger, unless one record is longer.
const maxLedgerChunk = 1 << 20

// ledgerRetry is the pause between two rounds of asking for missing records.
const ledgerRetry = 500 * time.Millisecond

// ledgerPatience bounds the wait for one answer with missing records.
const ledgerPatience = 10 * time.Second

// ErrLedgerBehind says that this server's ledger is not complete.
var ErrLedgerBehind = ledgerfile.ErrBehind

// ErrOffset reports an offset at which no record of the ledger begins.
var ErrOffset = errors.New("no record of the ledger begins at this offset")

// openLedger opens the ledger of a group: in its directory, in the given stores, or in memory for both without.
func (g *Group) openLedger() error {
	held := g.store.Ledger
	switch {
	case held != nil:
	case g.cfg.Dir == "":
		held = ledgerfile.NewInmem()
	default:
		f, err := ledgerfile.OpenFile(g.cfg.Dir)
		if err != nil {
			return err
		}
		g.closers = append(store.Closers{f}, g.closers...)
		held = f
	}
	var err error
	g.book, err = ledgerfile.Open(held, g.log)
	return err
}

// LedgerComplete returns why this server can't show its ledger, or nil.
func (g *Group) LedgerComplete() error {
	have, want, behind := g.book.Missing()
	if !behind {
		return nil
	}
	return fmt.Errorf("%w: %d of %d records are here", ErrLedgerBehind, have, want.Length)
}

// ReadLedger returns whole records of this server's ledger from an offset in bytes at which one begins, at most 1 MiB of
// them unless one is longer; none at its end. It fails while records are missing here, and with ErrOffset.
func (g *Group) ReadLedger(offset uint64) ([]byte, error) {
	n, ok := g.book.Number(offset)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrOffset, offset)
	}
	return g.book.Read(n, maxLedgerChunk)
}

// LedgerAfter is ReadLedger from behind the first n records.
func (g *Group) LedgerAfter(n uint64) ([]byte, error) { return g.book.Read(n, maxLedgerChunk) }

// ledgerLoop fetches what is missing of the ledger, as a server needs that has joined from a snapshot.
func (g *Group) ledgerLoop(ctx context.Context) {
	said, from := time.Time{}, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.book.Wake():
		}
		for ctx.Err() == nil {
			have, want, behind := g.book.Missing()
			if !behind {
				g.log.Info("the ledger is complete", "records", want.Length)
				break
			}
			var err error
			from, err = g.fetchLedger(ctx, from)
			if _, stop := errors.AsType[ledgerfile.Fatal](err); stop {
				g.fail(err)
				return
			}
			if err == nil {
				continue
			}
			if ctx.Err() == nil && time.Since(said) > rejoinNotice {
				said = time.Now()
				g.log.Warn("records of the ledger are missing here; asking on", "have", have, "want", want.Length, "err", err)
			}
			timer := time.NewTimer(ledgerRetry)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// fetchLedger asks the other servers for the next records and returns the address of the one that some came from. It begins
// with from, so that one server gives all: of two histories neither would ever fit behind the other.
func (g *Group) fetchLedger(ctx context.Context, from string) (string, error) {
	var failed []error
	others := 0
	servers := g.servers()
	first := max(0, slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.Address) == from }))
	for _, s := range slices.Concat(servers[first:], servers[:first]) {
		address := string(s.Address)
		if address == g.cfg.Address {
			continue
		}
		others++
		have, _, behind := g.book.Missing()
		if !behind {
			return address, nil
		}
		askCtx, cancel := context.WithTimeout(ctx, ledgerPatience)
		answer, err := ask[ledgerRequest, ledgerAnswer](askCtx, g.links, address, askLedger, &ledgerRequest{have})
		cancel()
		if err == nil && len(answer.Records) == 0 {
			err = errors.New("it has no more records than this SN")
		}
		if err == nil {
			err = g.book.Fetched(have, answer.Records)
		}
		if _, stop := errors.AsType[ledgerfile.Fatal](err); stop {
			return "", err
		}
		if err == nil {
			return address, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", s.ID, err))
	}
	if others == 0 && len(servers) == 1 {
		have, want, _ := g.book.Missing()
		return "", ledgerfile.Fatal{Err: fmt.Errorf("the ledger has %d of %d records and there is no other SN to fetch the rest from: restore %s from a backup or a copy (swarmctl get ledger)", have, want.Length, ledgerfile.Name)}
	}
	return from, errors.Join(append(failed, ErrLedgerBehind)...)
}
