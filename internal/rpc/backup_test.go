package rpc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// copied is a ledger in memory, of an SN with or without a majority.
type copied struct {
	core *rpctest.Core
	lost bool
	// begun, if given, takes from who begins to read, before held lets it.
	begun, held chan struct{}
}

func (c *copied) ReadLedger(offset uint64) ([]byte, error) {
	if c.begun != nil {
		c.begun <- struct{}{}
		<-c.held
	}
	return bytes.Join(c.core.Records(), nil)[offset:], nil
}

func (c *copied) LedgerAfter(uint64) ([]byte, error) { return nil, errors.New("not asked for") }

func (c *copied) Barrier(context.Context) error {
	if c.lost {
		return consensus.ErrNoLeader
	}
	return nil
}

// readBackup reads a backup as a caller.
func readBackup(t *testing.T, p *peer) ([]byte, error) {
	t.Helper()
	stream, err := swarmv1connect.NewBackupServiceClient(p.http, p.url()).ReadBackup(t.Context(), with(p, &swarmv1.ReadBackupRequest{}))
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	for stream.Receive() {
		file.Write(stream.Msg().GetData())
	}
	return file.Bytes(), errors.Join(stream.Err(), stream.Close())
}

func newBackedUp(t *testing.T, l *copied) *swarm {
	t.Helper()
	return startSwarm(t, rpc.Config{BodyTime: time.Second}, func(cfg *rpc.Config) {
		l.core = cfg.Core.(*rpctest.SN).Core
		cfg.Ledger = l
		cfg.Origin = func() backup.Origin { return backup.Origin{Version: "v1"} }
	})
}

// TestBackup: what an operator gets is whole, of one index, and has no token in it.
func TestBackup(t *testing.T) {
	l := &copied{}
	s := newBackedUp(t, l)
	must(s.core.Propose(t.Context(), state.BundleOf("hospital.example", [][]byte{{1}}, 1)))(t)
	learner, _ := newLearner(t, s, "sl-a")
	op := s.as("/swarm/swci")
	op.header = learner.header.Clone()
	for _, lost := range []bool{false, true} {
		l.lost = lost
		file, err := readBackup(t, op)
		if err != nil {
			t.Fatal(err)
		}
		var lines []byte
		b, err := backup.Read(bytes.NewReader(file), func(_ ledger.Head, line []byte) error {
			lines = append(lines, line...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h := b.Header
		if h.Confirmed == lost || h.SwarmID != swarmID || h.Index != s.core.Index() || h.Origin.SN != "sn-0" || h.Origin.Version != "v1" || h.AtMS == 0 {
			t.Errorf("header: %+v", h)
		}
		if !bytes.Equal(lines, bytes.Join(s.core.Records(), nil)) || b.State.Nodes["sl-a"] == nil {
			t.Errorf("a ledger of %d bytes, nodes %v", len(lines), b.State.Nodes)
		}
		token := learner.header.Get(rpc.HeaderToken)
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || len(raw) != 32 {
			t.Fatalf("token: %v", err)
		}
		plain, err := state.EncodeSnapshot(b.State)
		if err != nil || bytes.Contains(plain, []byte(token)) || bytes.Contains(plain, raw) {
			t.Error("the state holds a token")
		}
	}
	if _, err := readBackup(t, learner); rpc.ReasonOf(err) != "ROLE_DENIED" && connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("an SL asks: %v", err)
	}
}

// TestOneBackupAtATime: a second one is told to come again.
func TestOneBackupAtATime(t *testing.T) {
	l := &copied{begun: make(chan struct{}), held: make(chan struct{})}
	s := newBackedUp(t, l)
	must(s.core.Propose(t.Context(), state.BundleOf("hospital.example", [][]byte{{1}}, 1)))(t)
	learner, _ := newLearner(t, s, "sl-a")
	op := s.as("/swarm/swci")
	op.header = learner.header.Clone()
	first := make(chan error, 1)
	go func() {
		_, err := readBackup(t, op)
		first <- err
	}()
	<-l.begun
	if _, err := readBackup(t, op); rpc.ReasonOf(err) != "BUSY" && connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a second one at the same time: %v", err)
	}
	close(l.held)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
}
