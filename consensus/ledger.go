package consensus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// maxLedgerChunk bounds what one answer carries of the ledger, unless one record is longer.
const maxLedgerChunk = 1 << 20

// ledgerRetry is the pause between two rounds of asking for missing records.
const ledgerRetry = 500 * time.Millisecond

// ErrLedgerBehind says that this server's ledger is not complete.
var ErrLedgerBehind = errors.New("this SN's ledger is not complete yet; it fetches what is missing from the other SNs")

// ErrOffset reports an offset at which no record of the ledger begins.
var ErrOffset = errors.New("no record of the ledger begins at this offset")

// openLedger opens the ledger of a group: in its directory, in the given stores, or in memory for both without.
func (g *Group) openLedger() error {
	store := g.store.Ledger
	switch {
	case store != nil:
	case g.cfg.Dir == "":
		store = NewInmemLedger()
	default:
		f, err := os.OpenFile(filepath.Join(g.cfg.Dir, LedgerFile), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("open ledger: %w", err)
		}
		g.closer = closers{f, orNothing(g.closer)}
		store = fileStore{f}
	}
	var err error
	g.book, err = openBook(store, g.log)
	return err
}

type nothing struct{}

// Close does nothing.
func (nothing) Close() error { return nil }

func orNothing(c io.Closer) io.Closer {
	if c == nil {
		return nothing{}
	}
	return c
}

// LedgerComplete returns why this server can't show its ledger, or nil.
func (g *Group) LedgerComplete() error {
	have, want, behind := g.book.missing()
	if !behind {
		return nil
	}
	return fmt.Errorf("%w: %d of %d records are here", ErrLedgerBehind, have, want.Length)
}

// ReadLedger returns whole records of this server's ledger from an offset in bytes at which one begins, at most 1 MiB of
// them unless one is longer; none at its end. It fails while records are missing here, and with ErrOffset.
func (g *Group) ReadLedger(offset uint64) ([]byte, error) {
	n, ok := g.book.number(offset)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrOffset, offset)
	}
	return g.book.read(n, maxLedgerChunk)
}

// LedgerAfter is ReadLedger from behind the first n records.
func (g *Group) LedgerAfter(n uint64) ([]byte, error) { return g.book.read(n, maxLedgerChunk) }

// ledgerLoop fetches what is missing of the ledger, as a server needs that has joined from a snapshot.
func (g *Group) ledgerLoop(ctx context.Context) {
	said, from := time.Time{}, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.book.wake:
		}
		for ctx.Err() == nil {
			have, want, behind := g.book.missing()
			if !behind {
				g.log.Info("the ledger is complete", "records", want.Length)
				break
			}
			var err error
			from, err = g.fetchLedger(ctx, from)
			if _, stop := errors.AsType[fatal](err); stop {
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
		have, _, behind := g.book.missing()
		if !behind {
			return address, nil
		}
		askCtx, cancel := context.WithTimeout(ctx, writeTimeout)
		answer, err := g.links.ask(askCtx, address, frame{kind: frameLedger, body: appendUint64(nil, have)})
		cancel()
		if err == nil && len(answer.body) == 0 {
			err = errors.New("it has no more records than this SN")
		}
		if err == nil {
			err = g.book.fetched(have, answer.body)
		}
		if _, stop := errors.AsType[fatal](err); stop {
			return "", err
		}
		if err == nil {
			return address, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", s.ID, err))
	}
	if others == 0 && len(servers) == 1 {
		have, want, _ := g.book.missing()
		return "", fatal{fmt.Errorf("the ledger has %d of %d records and there is no other SN to fetch the rest from: restore %s from a backup or a copy (swarmctl get ledger)", have, want.Length, LedgerFile)}
	}
	return from, errors.Join(append(failed, ErrLedgerBehind)...)
}

// ledgerAnswer is what another server gets for its number of records.
func (g *Group) ledgerAnswer(body []byte) ([]byte, error) {
	n, rest, ok := cutUint64(body)
	if !ok || len(rest) > 0 {
		return nil, errFrame
	}
	return g.book.read(n, maxLedgerChunk)
}

// lineReader reads lines of bounded length.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, ledger.MaxRecord)}
}

// next returns the next line, valid until the next call. io.EOF is the end, io.ErrUnexpectedEOF an end within a line.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	switch {
	case err == nil:
		return line, nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: longer than %d bytes", ledger.ErrMalformed, ledger.MaxRecord)
	}
	return nil, err
}
