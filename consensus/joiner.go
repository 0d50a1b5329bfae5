package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
)

// joiner makes this server a member of the group, again when it was removed.
type joiner struct {
	replica  *replica
	admitter *admitter // for when this server leads itself
	network  Network
	named    *raftnet.Named // by the answers to joins
	election time.Duration
	dir      string
	log      *slog.Logger
	again    atomic.Pointer[rejoin] // nil: this server has not joined
}

// remember has run repeat a join when this server finds itself removed.
func (j *joiner) remember(self JoinRequest, via []string) { j.again.Store(&rejoin{self, via}) }

// join makes this server a member by asking the SNs at via, and those of its own configuration, until one has let it in
// or refused it for good (ErrRefused), or ctx ends. Call it on every start of an SN: a member is let in again at
// once, with its new address if that has changed, and a removed one comes back. It returns when this server has applied
// its own registration. While Run runs, a server that finds itself removed repeats the join by itself, last through via.
func (j *joiner) join(ctx context.Context, via []string, self JoinRequest) error {
	if self.Name != j.replica.name || self.Address != j.replica.address {
		return errors.New("join: the request must carry this server's name and address")
	}
	pause := minBackoff
	last := ErrNoLeader
	begin, said := time.Now(), ""
	told := "" // why an operator is to admit this SN: the reason of the last refusal that was told
	for {
		waits := false
		if why := last.Error(); why != said && time.Since(begin) > joinNotice {
			said = why
			j.log.Warn("not let into the swarm yet; asking on", "node", j.replica.name, "err", last)
		}
		for _, address := range joinTargets(via, j.replica.addresses()) {
			resp, err := j.askJoin(ctx, address, self)
			if err == nil {
				j.remember(self, via) // from now on run asks; until then this loop does
				return j.joined(ctx, address, resp)
			}
			if errors.Is(err, ErrRefused) || told != "" && admission.TellsBan(err, j.replica.self.PeerID) {
				return fmt.Errorf("join: %w", err)
			}
			if ctx.Err() == nil {
				last = err
			}
			if notAdmitted(err) {
				waits, said = true, err.Error()
				told = j.tellWaits(told, err)
			}
		}
		if waits {
			pause = admission.Pause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("join: %w: %w", last, ctx.Err())
		case <-j.replica.stopped:
			timer.Stop()
			return ErrShutdown
		}
		pause = min(2*pause, maxBackoff)
	}
}

// rejoin holds the arguments of join, for a server that finds itself removed.
type rejoin struct {
	self JoinRequest
	via  []string
}

// joinTargets returns all addresses, each once.
func joinTargets(lists ...[]string) []string {
	var out []string
	for _, t := range slices.Concat(lists...) {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// askJoin asks one SN.
func (j *joiner) askJoin(ctx context.Context, address string, self JoinRequest) (JoinResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	ask := func(r JoinRequest) (JoinResponse, error) {
		return settleJoin(j.admitter.handle(ctx, j.replica.self, r))
	}
	if address != j.replica.address {
		conn, err := raftnet.DialSN(ctx, j.network, address, ProtocolJoin)
		if err != nil {
			return JoinResponse{}, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer func() {
			stop()
			_ = conn.Close()
		}()
		ask = func(r JoinRequest) (JoinResponse, error) { return askOn(conn, address, r) }
	}
	challenge, err := ask(JoinRequest{Name: self.Name, Address: self.Address, SwarmID: self.SwarmID})
	if err != nil {
		return JoinResponse{}, err
	}
	j.named.Set(address, challenge.Servers) // the leader's messages may come before its answer
	self.Nonce = challenge.Nonce
	if self.SwarmID == "" {
		self.SwarmID = challenge.SwarmID
	}
	if self, err = j.admitter.prover.Prove(self); err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w", address, err)
	}
	return ask(self)
}

// askOn sends one request on a stream of the join protocol and reads its answer.
func askOn(conn net.Conn, address string, r JoinRequest) (JoinResponse, error) {
	if err := EncodeJoin(conn, r); err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w", address, err)
	}
	b, err := readSized(conn, maxJoin)
	if err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w", address, err)
	}
	var resp JoinResponse
	if err := json.Unmarshal(b, &resp); err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w: %w", address, errFrame, err)
	}
	return settleJoin(resp)
}

func settleJoin(resp JoinResponse) (JoinResponse, error) {
	if resp.Refused != nil {
		return resp, resp.Refused
	}
	return resp, nil
}

// joined waits until this server has applied its own registration.
func (j *joiner) joined(ctx context.Context, by string, resp JoinResponse) error {
	j.named.Set(by, resp.Servers)
	if err := j.replica.wait(ctx, resp.Index); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	j.named.Clear() // the configuration says from here on who is a server
	return store.MarkMember(j.dir)
}

const (
	joinTimeout = 20 * time.Second
	// busyAfter is how long a join waits for others that change the configuration.
	busyAfter = time.Second
	// joinNotice is how long a join may take before it says why: an election and a moment more.
	joinNotice = 5 * time.Second
	// rejoinNotice is the least time between two complaints about it: what fails may differ each time.
	rejoinNotice = time.Minute
)

// run asks to be let in again when this server has heard from no leader for long: it may have been removed, and
// nobody tells a removed server so.
func (j *joiner) run(ctx context.Context) {
	period := 5 * j.election
	said, saidAt := "", time.Time{}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		again := j.again.Load()
		if again == nil || j.replica.elected() || time.Since(j.replica.raft.LastContact()) < period {
			if j.replica.follows() {
				j.named.Clear()
			}
			continue
		}
		var failed []error
		for _, address := range joinTargets(j.replica.addresses(), again.via) {
			if address == j.replica.address {
				continue
			}
			resp, err := j.askJoin(ctx, address, again.self)
			if err == nil {
				waitCtx, cancel := context.WithTimeout(ctx, joinTimeout)
				err = j.joined(waitCtx, address, resp)
				cancel()
			}
			if err == nil {
				j.log.Info("rejoined the swarm", "node", j.replica.name)
				failed, said = nil, ""
				break
			}
			failed = append(failed, fmt.Errorf("%s: %w", address, err))
		}
		// A ban is told by the connection or by the join, so neither kind of refusal is waited for.
		if len(failed) > 0 && ctx.Err() == nil {
			if why := errors.Join(failed...).Error(); why != said && time.Since(saidAt) > rejoinNotice {
				said, saidAt = why, time.Now()
				j.log.Warn("no leader is heard of, and no SN lets this node in again; asking on", "node", j.replica.name, "err", strings.ReplaceAll(why, "\n", "; "))
			}
		}
	}
}

// tellWaits logs that this SN waits for an operator, the command that admits it, and why its invitation does not; once for each reason. It
// returns the reason.
func (j *joiner) tellWaits(told string, err error) string {
	refusal, ok := errors.AsType[*JoinRefusal](err)
	if !ok || refusal.Reason == told {
		return told
	}
	attrs := []any{"node", j.replica.name, "type", admission.Command(j.replica.name, j.replica.self.PeerID)}
	if refusal.Reason != state.ReasonNotAdmitted {
		attrs = append(attrs, "invitation", refusal.Error())
	}
	j.log.Warn("this SN waits until an operator admits it", attrs...)
	return refusal.Reason
}
