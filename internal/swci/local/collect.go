package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/metrics"
	"github.com/swarmd/swarmd/internal/swci/report"
)

// ledgerTimeout bounds the reading of the ledger at a run's end.
const ledgerTimeout = 10 * time.Second

// collect reads what the programs wrote, and joins it with what the swarm said last.
func (r *run) collect() *report.Page {
	var status *swarmv1.GetContractStatusResponse
	if r.progress != nil {
		status = r.progress.status
	}
	page := &report.Page{}
	for i := range r.cfg.Peers {
		e := report.Events{Name: cluster.SLName(i), ModelDir: r.cfg.peerDir(i), Failed: r.failed[i]}
		x := session(status, e.Name)
		e.Isolation, e.Checkin = x.GetIsolation(), x.GetCheckinMode()
		if r.progress != nil {
			e.Sent, e.Received = r.progress.traffic(i)
		}
		e.Swarm = r.events(r.cfg.metricsPath(i, false))
		if r.cfg.Baseline {
			e.Local = r.events(r.cfg.metricsPath(i, true))
		}
		page.Peers = append(page.Peers, e)
	}
	c, now := status.GetContract(), r.host.Now()
	s := &page.Summary
	*s = report.Summary{
		WallSeconds: now.Sub(r.started).Seconds(), Program: r.cfg.Program, Platform: r.cfg.Platform, Runtime: r.cfg.Runtime,
		Contract: c.GetName(), SNs: r.cfg.SNs, MinPeers: r.cfg.MinPeers, Started: r.started.UTC().Format(time.RFC3339),
		State: report.Finished, Ended: now.UTC().Format(time.RFC3339), Project: filepath.Base(r.cfg.ModelDir), ProgramSHA256: fileSHA256(filepath.Join(r.cfg.ModelDir, r.cfg.Program)),
		Method: c.GetTerms().GetMethod(), ContractMinPeers: int(c.GetTerms().GetMinPeers()), Versions: map[string]string{}, Warnings: r.cfg.warned(status),
	}
	if host, err := os.Hostname(); err == nil {
		s.Host = host
	}
	if v := swarmdVersion(r.cfg.Swarmd); v != "" {
		s.Versions["swarmd"] = v
	}
	s.Summarise(page.Peers, int64(min(c.GetCommitted().GetRound(), 1<<40)))
	page.Rounds = report.MergeRounds(weighed(committed(status), r.rounds), page.Peers)
	report.AddPast(page.Rounds, r.past)
	s.Contribute(page.Rounds)
	return page
}

// fileSHA256 is a file's digest in hex, "" if it can't be read.
func fileSHA256(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// swarmdVersion asks the binary, "" if it does not say.
func swarmdVersion(swarmd string) string {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, swarmd, "version").Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(first) > 200 {
		return ""
	}
	return strings.TrimPrefix(first, "swarmd ")
}

func (r *run) events(path string) []metrics.Event {
	events, skipped, err := metrics.ReadFile(path)
	if err != nil {
		r.board.Log(err.Error())
	}
	if skipped > 0 {
		r.board.Log(fmt.Sprintf("%s: %d lines are no metrics and are left out", path, skipped))
	}
	return events
}

// committed converts the rounds that the swarm remembers.
func committed(status *swarmv1.GetContractStatusResponse) []report.Round {
	var out []report.Round
	for _, x := range status.GetRecent() {
		n := report.Round{
			Round: int64(min(x.GetRound(), 1<<40)), Attempt: int64(min(x.GetAttempt(), 1<<40)),
			Participants: x.GetParticipants(), Digest: x.GetDigest(), Final: x.GetFinal(),
		}
		if x.GetPlannedUnixMs() > 0 {
			n.Seconds = max(0, float64(x.GetCommittedUnixMs()-x.GetPlannedUnixMs())/1000)
		}
		out = append(out, n)
	}
	return out
}

// ledgerRounds reads the rounds of a contract from the swarm's ledger, which alone has their weights. What can't be read is not told: the page
// shows the rounds without.
func ledgerRounds(ctx context.Context, api API, contract string) []report.Round {
	if contract == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	r, w := io.Pipe()
	go func() {
		_, err := api.ReadLedger(ctx, w)
		w.CloseWithError(err)
	}()
	defer r.Close()
	var out []report.Round
	lines := bufio.NewReaderSize(r, ledger.MaxRecord)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return out
		}
		if !bytes.Contains(line, []byte(`"kind":"`+ledger.Round{}.Kind()+`"`)) {
			continue
		}
		if x, ok := ledgerRound(line, contract); ok {
			out = append(out, x)
		}
	}
}

func ledgerRound(line []byte, contract string) (report.Round, bool) {
	_, body, err := ledger.Parse(line)
	if err != nil {
		return report.Round{}, false
	}
	var x ledger.Round
	switch b := body.(type) {
	case ledger.Round:
		x = b
	case *ledger.Round:
		x = *b
	}
	if x.Contract != contract {
		return report.Round{}, false
	}
	n := report.Round{Round: int64(min(x.Round, 1<<40)), Attempt: int64(min(x.Attempt, 1<<40)), Digest: x.Model}
	for _, p := range x.Participants {
		n.Participants, n.Weights = append(n.Participants, p.Node), append(n.Weights, int64(p.Weight))
	}
	return n, true
}

// weighed adds what the ledger says of rounds to what the leader remembers: rounds that it has forgotten, and weights.
func weighed(known, recorded []report.Round) []report.Round {
	at := map[int64]int{}
	for i, r := range recorded {
		at[r.Round] = i // of a round that was made again, the last one
	}
	for _, k := range known {
		i, ok := at[k.Round]
		if !ok {
			recorded = append(recorded, k)
			continue
		}
		recorded[i].Seconds, recorded[i].Final = k.Seconds, k.Final
	}
	return recorded
}

// finish writes summary and page and prints the table. It fails, loudly, when peers ended with different models. failed is why the run did
// not get to its end, or which programs failed while others went on; it is returned if nothing is worse.
func (r *run) finish(failed error) error {
	page := r.collect()
	s := &page.Summary
	if failed != nil {
		s.Reason = failed.Error()
	}
	if !r.whole {
		s.State = report.Failed
		switch exit.Code(failed) {
		case exit.Interrupted:
			s.State, s.Reason = report.Interrupted, "stopped by Ctrl-C or TERM"
		case exit.TimedOut:
			s.State = report.Interrupted
		}
	}
	if err := r.write(page); err != nil {
		return errors.Join(failed, err)
	}
	switch {
	case !r.whole:
		r.board.Log("what there was by then is in " + filepath.Join(r.cfg.Out, reportFile))
		return failed
	case r.cfg.JSON:
		if err := s.WriteJSON(r.host.Stdout); err != nil {
			return err
		}
	default:
		if err := r.printEnd(s); err != nil {
			return err
		}
	}
	if s.Differ() {
		return exit.New(exit.Failed, "this must never happen: please report it with the folder "+r.cfg.Out, "THE PEERS' FINAL MODELS DIFFER\n%s", strings.Join(digests(s), "\n"))
	}
	if failed != nil {
		return failed
	}
	return strictly(s, r.cfg.Strict)
}

// write leaves page and summary in the output folder.
func (r *run) write(page *report.Page) error {
	var html, js bytes.Buffer
	if err := errors.Join(page.WriteHTML(&html), page.Summary.WriteJSON(&js)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.cfg.Out, reportFile), html.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.cfg.Out, summaryFile), js.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}
