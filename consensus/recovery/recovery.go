// Package recovery founds the group of SNs anew from the state directory of one of them, when the others are gone for good: it asks
// whether they are, has an operator's key sign it, and leaves nothing half-done.
package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/epoch"
)

// intent is what is written down of a recovery before anything is changed.
type intent struct {
	Recovery ledger.Recovery `json:"recovery"`
	Ledger   int64           `json:"ledger"` // bytes of the ledger file before
}

// intentFile holds the intent while a recovery is under way. A node does not start beside it.
const intentFile = "recovery.json"

// maxIntent bounds the file, in bytes.
const maxIntent = 256 << 10

// Config says what is founded anew, and by whom.
type Config struct {
	// Dir is the state directory. Its lock is taken while Found runs: nobody else uses it.
	Dir string
	// Source is the operator's identity, of the role swci.
	Source identity.Source
	Log    *slog.Logger
	// Lost judges whether the other voters of the group, which is of that swarm and epoch, are gone; an error refuses, and nothing has been
	// changed then. nil: nobody is asked.
	Lost func(ctx context.Context, of epoch.Pin, others []Voter) error
	// Single founds a group anew whose only voter it is as well, as when a backup is restored. Else such a group needs no recovery.
	Single bool
	// Host and P2PPort are where the node will be reached; empty: where it was. Needed if the state does not know it.
	Host    string
	P2PPort int

	reached func(point string) error // tests end it there; nil: nobody is told
}

func (c Config) at(point string) error {
	if c.reached == nil {
		return nil
	}
	return c.reached(point)
}

// Voter is a server of the old group that votes.
type Voter struct {
	Name    string
	PeerID  string
	Address string // HOST:PORT
}

// Result is what was founded.
type Result struct {
	SwarmID string
	Epoch   uint64
	Node    string
	By      string      // SPIFFE ID of the operator
	Digest  string      // of the recovery
	Signed  time.Time   // by the operator's clock
	Index   uint64      // of the raft log
	Had     ledger.Head // of the ledger, without the record of the recovery
	Forgot  []string    // SNs that the old group had, sorted
	Before  bool        // it had been done already, and nothing was changed
}

// Errors of Found; errors.Is.
var (
	// ErrNotNeeded says that the group has one voter, which is this one.
	ErrNotNeeded = errors.New("this SN is the only voter of its swarm: it needs no recovery, start it")
	// ErrNoSN says that the directory is not an SN's.
	ErrNoSN = errors.New("it is not the state directory of an SN")
)

// Found founds the group of SNs of a swarm anew, as a group of the one whose state directory this is, under the node key that lies there
// (one is made if there is none), in the next epoch. Killed at any point it can be called again, and ends with that same epoch. It
// waits for Lost and for the disk.
func Found(ctx context.Context, cfg Config) (Result, error) {
	name, dir, err := open(cfg.Dir)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = dir.Close() }() // it is only a lock
	raftDir := filepath.Join(cfg.Dir, "raft")
	if _, err := os.Stat(raftDir); err != nil {
		return Result{}, fmt.Errorf("%s holds no raft state: %w", cfg.Dir, consensus.ErrNoRemains)
	}
	stores, closers, err := store.Open(raftDir, cfg.Log)
	if err != nil {
		return Result{}, err
	}
	res, err := found(ctx, cfg, name, stores)
	return res, errors.Join(err, closers.Close())
}

// open locks the directory and returns whose it is.
func open(dir string) (name string, lock *identity.StateDir, err error) {
	if name, err = Owner(dir); err == nil {
		lock, err = identity.OpenStateDir(dir, name, identity.RoleSN)
	}
	return name, lock, err
}

// Owner returns the SN whose state directory this is; ErrNoSN if it is none.
func Owner(dir string) (name string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	name, role, err := identity.OwnerOf(dir)
	if err == nil && role != identity.RoleSN {
		err = fmt.Errorf("it belongs to node %s of the role %s", name, role)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", dir, ErrNoSN, err)
	}
	return name, nil
}

func found(ctx context.Context, cfg Config, name string, stores store.Stores) (Result, error) {
	remains, err := consensus.ReadRemains(stores, cfg.Log)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", cfg.Dir, err)
	}
	key, err := identity.LoadOrCreateNodeKey(cfg.Dir)
	if err != nil {
		return Result{}, err
	}
	id, err := identity.PeerID(key)
	if err != nil {
		return Result{}, err
	}
	self, err := cfg.self(name, id.String(), remains)
	if err != nil {
		return Result{}, err
	}
	in, begun, err := readIntent(cfg.Dir)
	if err != nil {
		return Result{}, err
	}
	r := in.Recovery
	done := begun && epoch.Of(remains.State.SwarmID, remains.State.Recoveries) == epoch.Of(r.SwarmID, []ledger.Recovery{r})
	others := voters(remains.Servers, self)
	res := Result{SwarmID: remains.State.SwarmID, Node: name, Index: remains.LastIndex, Had: remains.State.LedgerHead()}
	if !begun && len(others) == 0 && !cfg.Single {
		if n := len(remains.State.Recoveries); n > 0 && remains.State.Recoveries[n-1].PeerID == self.PeerID {
			return res.of(remains.State.Recoveries[n-1], true), nil
		}
		return res, ErrNotNeeded
	}
	if !done {
		of, err := pinned(cfg.Dir, remains.State)
		if err != nil {
			return res, err
		}
		if cfg.Lost != nil && len(others) > 0 {
			if err := cfg.Lost(ctx, of, others); err != nil {
				return res, errors.Join(err, undo(cfg.Dir, begun, in))
			}
		}
		if r, err = cfg.intend(r, begun, self, remains); err != nil {
			return res, err
		}
	}
	if err := cfg.at("written down"); err != nil {
		return res, err
	}
	file, err := ledgerfile.OpenFile(cfg.Dir)
	if err != nil {
		return res, err
	}
	for _, n := range remains.State.NodesByRole(naming.RoleSN) {
		if n.Name != name {
			res.Forgot = append(res.Forgot, n.Name)
		}
	}
	err = remains.Refound(name, raftnet.FormatAddress(self.PeerID, self.Address), file, state.RecoverSwarm{Recovery: r})
	if err = errors.Join(err, file.Close()); err != nil {
		return res, err
	}
	if err := cfg.end(r); err != nil {
		return res, fmt.Errorf("end the recovery: %w", err)
	}
	return res.of(r, false), nil
}

// pinned is the swarm and the epoch of the state. What the directory pins beside it may be missing, and must not be another swarm.
func pinned(dir string, s *state.State) (epoch.Pin, error) {
	of := epoch.Of(s.SwarmID, s.Recoveries)
	kept, err := epoch.Read(dir)
	if err == nil && kept.SwarmID != "" && kept.SwarmID != of.SwarmID {
		err = fmt.Errorf("%s pins swarm %q, and its state is of swarm %q: it was put together from two", dir, kept.SwarmID, of.SwarmID)
	}
	return of, err
}

// end has the node follow the new epoch, and removes the intent.
func (c Config) end(r ledger.Recovery) error {
	if err := c.at("founded"); err != nil {
		return err
	}
	if err := epoch.Write(c.Dir, epoch.Of(r.SwarmID, []ledger.Recovery{r})); err != nil {
		return err
	}
	if err := c.at("pinned"); err != nil {
		return err
	}
	return os.Remove(filepath.Join(c.Dir, intentFile))
}

func (res Result) of(r ledger.Recovery, before bool) Result {
	res.Epoch, res.By, res.Before, res.Signed, res.Digest = r.Epoch, r.By, before, time.UnixMilli(r.AskedMS), r.Digest()
	return res
}

// self is where the node was, or will be.
func (c Config) self(name, peerID string, r *consensus.Remains) (Voter, error) {
	host, port := c.Host, c.P2PPort
	if n := r.State.Nodes[name]; n != nil {
		if host == "" {
			host = n.Host
		}
		if port == 0 {
			port = int(n.P2PPort)
		}
	}
	if host == "" || port == 0 {
		return Voter{}, fmt.Errorf("the state in %s does not know SN %s: it is another node's, or the node was forgotten", c.Dir, name)
	}
	return Voter{Name: name, PeerID: peerID, Address: joinPort(host, port)}, nil
}

// voters are the other servers of the old group that vote.
func voters(servers []raft.Server, self Voter) []Voter {
	var out []Voter
	for _, s := range servers {
		if s.Suffrage != raft.Voter || string(s.ID) == self.Name {
			continue
		}
		if id, address, err := raftnet.ParseAddress(string(s.Address)); err == nil {
			out = append(out, Voter{Name: string(s.ID), PeerID: id, Address: address})
		} else {
			out = append(out, Voter{Name: string(s.ID)})
		}
	}
	return out
}

// intend returns the recovery that an operator has signed, and writes it down before anything is changed: whoever goes on after a crash
// goes on with the same one. One that was written down before is taken if it still fits.
func (c Config) intend(r ledger.Recovery, begun bool, self Voter, remains *consensus.Remains) (ledger.Recovery, error) {
	view, head := remains.State, remains.State.LedgerHead()
	want := ledger.Recovery{
		SwarmID: view.SwarmID, Epoch: view.Epoch() + 1, Node: self.Name, PeerID: self.PeerID, LastIndex: remains.LastIndex,
		Had: ledger.Witness{Length: head.Length, Hash: head.Hash},
	}
	if n := len(view.Recoveries); n > 0 {
		want.Previous = view.Recoveries[n-1].Digest()
	}
	if begun {
		want.By, want.AskedMS = r.By, r.AskedMS
		if r.Digest() != want.Digest() {
			return r, fmt.Errorf("%s is of a recovery of something else than what lies in %s: swarmd recover-sn --abandon takes back what it had begun", filepath.Join(c.Dir, intentFile), c.Dir)
		}
		return r, nil
	}
	r, err := sign(c.Source, want, time.Now())
	if err != nil {
		return r, err
	}
	in := intent{Recovery: r}
	if info, err := os.Stat(filepath.Join(c.Dir, ledgerfile.Name)); err == nil {
		in.Ledger = info.Size()
	}
	raw, err := json.Marshal(in)
	if err == nil {
		err = atomicfile.Replace(filepath.Join(c.Dir, intentFile), append(raw, '\n'), 0o600)
	}
	if err != nil {
		return r, fmt.Errorf("write the recovery down: %w", err)
	}
	return r, nil
}

// sign has the operator's key sign a recovery.
func sign(source identity.Source, r ledger.Recovery, now time.Time) (ledger.Recovery, error) {
	svid, err := source.GetX509SVID()
	if err != nil {
		return r, fmt.Errorf("sign the recovery: %w", err)
	}
	who, err := identity.CertID(source, svid.Certificates[0])
	if err != nil {
		return r, fmt.Errorf("sign the recovery: %w", err)
	}
	r.By, r.AskedMS = who.String(), now.UnixMilli()
	if r.Signature, err = identity.SignWithSVID(svid, identity.RecoveryMessage(r.Statement())); err != nil {
		return r, fmt.Errorf("sign the recovery: %w", err)
	}
	r.Chain = identity.RawChain(svid)
	if err := epoch.Prove(r, source); err != nil {
		return r, fmt.Errorf("sign the recovery: give the identity of an operator, of the role swci: %w", err)
	}
	return r, nil
}

// readIntent returns the recovery that was begun; begun is false if none was.
func readIntent(dir string) (in intent, begun bool, err error) {
	path := filepath.Join(dir, intentFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return in, false, nil
	}
	if err == nil && len(raw) > maxIntent {
		err = fmt.Errorf("more than %d bytes", maxIntent)
	}
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		return in, false, fmt.Errorf("%s is damaged: %w: delete it and run the command again", path, err)
	}
	return in, true, nil
}

// undo takes back what an interrupted recovery has left that now is refused: what it added to the ledger, and that it was begun.
func undo(dir string, begun bool, in intent) error {
	if !begun {
		return nil
	}
	err := os.Truncate(filepath.Join(dir, ledgerfile.Name), in.Ledger)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, intentFile))
	}
	if err != nil {
		return fmt.Errorf("take back what an earlier recovery has begun: %w", err)
	}
	return nil
}

// Abandon takes back what a recovery has begun that is not done, so that the node can start as if there had been none. It reports whether
// there was one. One that is done is an error, and so is one whose epoch may be told to others.
func Abandon(dir string, log *slog.Logger) (begun bool, err error) {
	_, lock, err := open(dir)
	if err != nil {
		return false, err
	}
	defer func() { _ = lock.Close() }() // it is only a lock
	in, begun, err := readIntent(dir)
	if err != nil || !begun {
		return false, err
	}
	stores, closers, err := store.Open(filepath.Join(dir, "raft"), log)
	if err != nil {
		return true, err
	}
	remains, err := consensus.ReadRemains(stores, log)
	if err = errors.Join(err, closers.Close()); err != nil {
		return true, fmt.Errorf("%s: %w", dir, err)
	}
	if r := in.Recovery; epoch.Of(remains.State.SwarmID, remains.State.Recoveries) == epoch.Of(r.SwarmID, []ledger.Recovery{r}) {
		return true, fmt.Errorf("the recovery to epoch %d is done but for its last step: run swarmd recover-sn again without --abandon", r.Epoch)
	}
	return true, undo(dir, begun, in)
}

// Check returns why a node must not start from a state directory: a recovery of it was begun and is not done.
func Check(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, intentFile)); err != nil {
		return nil //nolint:nilerr // there is none
	}
	return fmt.Errorf("swarmd recover-sn was interrupted in %s: run it again with the same options, then start this node; or take back what it has begun: swarmd recover-sn --abandon --state-dir %s", dir, dir)
}

func joinPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
