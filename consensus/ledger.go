package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/peerconn"
)

// maxLedgerChunk bounds what one answer carries of the ledger, unless one record is longer.
const maxLedgerChunk = 1 << 20

// ledgerRetry is the pause between two rounds of asking for missing records.
const ledgerRetry = 500 * time.Millisecond

// ledgerTimeout bounds the wait for one answer with missing records.
const ledgerTimeout = 10 * time.Second

// ErrLedgerBehind says that this server's ledger is not complete.
var ErrLedgerBehind = ledgerfile.ErrBehind

// ErrOffset reports an offset at which no record of the ledger begins.
var ErrOffset = errors.New("no record of the ledger begins at this offset")

// ledgerCopy is this server's copy of the ledger. It fetches what is missing there.
type ledgerCopy struct {
	file    *ledgerfile.File
	replica *replica
	conns   *peerconn.Pool
	fail    func(error)
	log     *slog.Logger
}

// complete is [Group.LedgerComplete].
func (l *ledgerCopy) complete() error {
	have, want, behind := l.file.Missing()
	if !behind {
		return nil
	}
	return fmt.Errorf("%w: %d of %d records are here", ErrLedgerBehind, have, want.Length)
}

// read is [Group.ReadLedger].
func (l *ledgerCopy) read(offset uint64) ([]byte, error) {
	n, ok := l.file.Number(offset)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrOffset, offset)
	}
	return l.after(n)
}

// after is [Group.LedgerAfter].
func (l *ledgerCopy) after(n uint64) ([]byte, error) { return l.file.Read(n, maxLedgerChunk) }

// run fetches what is missing of the ledger until ctx ends, as a server needs that has joined from a snapshot.
func (l *ledgerCopy) run(ctx context.Context) {
	said, from := time.Time{}, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.file.Wake():
		}
		for ctx.Err() == nil {
			have, want, behind := l.file.Missing()
			if !behind {
				l.log.Info("the ledger is complete", "records", want.Length)
				break
			}
			var err error
			from, err = l.fetch(ctx, from)
			if _, stop := errors.AsType[ledgerfile.Fatal](err); stop {
				l.fail(err)
				return
			}
			if err == nil {
				continue
			}
			if ctx.Err() == nil && time.Since(said) > rejoinNotice {
				said = time.Now()
				l.log.Warn("records of the ledger are missing here; asking on", "have", have, "want", want.Length, "err", err)
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

// fetch asks the other servers for the next records and returns the address of the one that some came from. It asks from first,
// so that all records come from one server: records of two histories would never fit together.
func (l *ledgerCopy) fetch(ctx context.Context, from string) (string, error) {
	var failed []error
	others := 0
	servers := l.replica.servers()
	first := max(0, slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.Address) == from }))
	for _, s := range slices.Concat(servers[first:], servers[:first]) {
		address := string(s.Address)
		if address == l.replica.address {
			continue
		}
		others++
		have, _, behind := l.file.Missing()
		if !behind {
			return address, nil
		}
		askCtx, cancel := context.WithTimeout(ctx, ledgerTimeout)
		answer, err := ask[ledgerRequest, ledgerAnswer](askCtx, l.conns, address, askLedger, &ledgerRequest{have})
		cancel()
		if err == nil && len(answer.Records) == 0 {
			err = errors.New("it has no more records than this SN")
		}
		if err == nil {
			err = l.file.Fetched(have, answer.Records)
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
		have, want, _ := l.file.Missing()
		return "", ledgerfile.Fatal{Err: fmt.Errorf("the ledger has %d of %d records and there is no other SN to fetch the rest from: restore %s from a backup or a copy (swarmctl get ledger)", have, want.Length, ledgerfile.Name)}
	}
	return from, errors.Join(append(failed, ErrLedgerBehind)...)
}
