// Package restore makes the state directory of an SN from a backup, when all SNs or most of them are lost: it checks all of the backup
// first, founds the group of SNs anew from it, and leaves a directory that is whole, empty, or fit for trying again.
package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/epoch"
)

// Config says what is restored, where, and by whom.
type Config struct {
	File string // the backup
	Dir  string // the state directory to make; absent or empty
	// Name is the SN's; one that the swarm had may be used again, as its old key is forgotten. Host and P2PPort are where others will
	// reach it.
	Name, Host string
	P2PPort    int
	SwarmID    string // if given, a backup of another swarm is refused
	// Source is the operator's identity, of the role swci.
	Source identity.Source
	// Lost judges whether the SNs of the backup, which is of that swarm and epoch, are gone; an error refuses, and nothing has been
	// written then.
	Lost func(ctx context.Context, of epoch.Pin, sns []recovery.Voter) error
	Log  *slog.Logger
}

// Result is what was restored.
type Result struct {
	Backup backup.Header // zero if the command before had come so far that only its end was left
	recovery.Result
}

// ErrNotEmpty says that the directory holds something else.
var ErrNotEmpty = errors.New("is not empty")

// Restore makes the directory. Killed at any point it can be called again. It waits for Lost and for the disk.
func Restore(ctx context.Context, cfg Config) (Result, error) {
	p, err := openPlace(cfg.Dir)
	if err != nil {
		return Result{}, err
	}
	defer p.close()
	if p.whole {
		return p.finished(cfg)
	}
	f, err := os.Open(cfg.File)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	b, err := backup.Read(f, nil)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", cfg.File, err)
	}
	if cfg.SwarmID != "" && cfg.SwarmID != b.Header.SwarmID {
		return Result{}, fmt.Errorf("%s is a backup of swarm %s, not of swarm %s", cfg.File, b.Header.SwarmID, cfg.SwarmID)
	}
	if err := cfg.Lost(ctx, epoch.Of(b.State.SwarmID, b.State.Recoveries), sns(b.State)); err != nil {
		return Result{}, err
	}
	if err := p.begin(); err != nil {
		return Result{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Result{}, err
	}
	res := Result{Backup: b.Header}
	if err := cfg.unpack(f, b, p.part); err != nil {
		return res, errors.Join(fmt.Errorf("unpack %s: %w", cfg.File, err), p.abandon())
	}
	res.Result, err = recovery.Found(ctx, recovery.Config{
		Dir: p.part, Source: cfg.Source, Log: cfg.Log, Single: true, Host: cfg.Host, P2PPort: cfg.P2PPort,
	})
	if err != nil {
		return res, errors.Join(err, p.abandon())
	}
	return res, p.finish()
}

// sns are the SNs that a state names, as the voters that they may have been.
func sns(s *state.State) (out []recovery.Voter) {
	for _, n := range s.NodesByRole(naming.RoleSN) {
		out = append(out, recovery.Voter{Name: n.Name, PeerID: n.PeerID, Address: net.JoinHostPort(n.Host, strconv.Itoa(int(n.P2PPort)))})
	}
	return out
}

// unpack makes of a backup, which was checked, a state directory that a group can be founded anew from.
func (c Config) unpack(r io.Reader, b *backup.Backup, dir string) error {
	lock, err := identity.OpenStateDir(dir, c.Name, identity.RoleSN)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // it is only a lock
	if err := writeLedger(r, filepath.Join(dir, ledgerfile.Name), b.Header.Ledger); err != nil {
		return err
	}
	key, err := identity.LoadOrCreateNodeKey(dir)
	if err != nil {
		return err
	}
	id, err := identity.PeerID(key)
	if err != nil {
		return err
	}
	address := raftnet.FormatAddress(id.String(), net.JoinHostPort(c.Host, strconv.Itoa(c.P2PPort)))
	self := raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(c.Name), Address: raft.ServerAddress(address)}
	return writeSnapshot(filepath.Join(dir, "raft"), b, self, c.Log)
}

// writeLedger writes the ledger of a backup into a new file.
func writeLedger(r io.Reader, path string, want ledger.Head) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	b, err := backup.Read(r, func(_ ledger.Head, line []byte) error {
		_, err := out.Write(line)
		return err
	})
	if err == nil && b.Header.Ledger != want {
		err = errors.New("it was changed meanwhile")
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ahead is how far behind the backup the new group's log begins. Nodes that follow it have seen indexes of the old one, behind the backup
// too, and take what has a smaller one than they know for old.
const ahead = 1_000_000_000

// writeSnapshot stores the state as a snapshot of raft's, in a group of one server.
func writeSnapshot(dir string, b *backup.Backup, self raft.Server, log *slog.Logger) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 1, raftnet.NewLog(log, "snapshot"))
	if err != nil {
		return err
	}
	_, trans := raft.NewInmemTransport(self.Address) // which only a format of long ago asks for anything
	sink, err := snaps.Create(raft.SnapshotVersionMax, b.Header.Index+ahead, 1, raft.Configuration{Servers: []raft.Server{self}}, 1, trans)
	if err != nil {
		return err
	}
	if err := b.WriteSnapshot(sink, b.Header.Index+ahead); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}
