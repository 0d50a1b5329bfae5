package swci_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// ledgerAPI is an SN with a ledger.
type ledgerAPI struct {
	fakeAPI

	raw []byte
	err error // of reading it
}

func (a *ledgerAPI) ReadLedger(_ context.Context, w io.Writer) (int64, error) {
	n, err := w.Write(a.raw)
	if err != nil {
		return int64(n), fmt.Errorf("read ledger: %w", err)
	}
	return int64(n), a.err
}

// audited is a ledger of before orders were signed, with which nothing is wrong.
func audited(t *testing.T) *committed {
	t.Helper()
	c := newCommitted(t)
	c.add(ledger.Swarm{SwarmID: "s"})
	c.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{c.ca.Raw}})
	c.add(ledger.Ban{PeerID: "k", Node: "sl-0", Reason: "not \x1b[2Jtrusted", By: "spiffe://a.example/swarm/swci/ann"})
	c.add(ledger.Reset{Contract: "study", Run: 2})
	return c
}

// TestAuditShowsWhoDidWhat of an SN's ledger and of a copy, as a table and as JSON.
func TestAuditShowsWhoDidWhat(t *testing.T) {
	c := audited(t)
	api := &ledgerAPI{raw: c.lines}
	want := "RECORD  AT                     WHO                                DID     WHAT                   WHY\n" +
		"3       22 Nov 2026 19:12 UTC  spiffe://a.example/swarm/swci/ann  banned  node sl-0              not trusted\n" +
		"4       22 Nov 2026 19:12 UTC  -                                  reset   contract study, run 2  -\n"
	out, beside, err := on(t, api, "", "audit", "--sn=h")
	if err != nil || out != want || !strings.Contains(beside, "the chain of 4 records is whole, and signatures were not checked: give --bundle") {
		t.Errorf("%v, beside %q, got\n%s", err, beside, out)
	}
	for filter, want := range map[string]string{"--task=study": "", "--contract=study": "4", "--who=spiffe://a.example/**": "3", "--since=2026-11-22": "34", "--since=2026-11-23": ""} {
		out, _, err := on(t, api, "", "audit", c.file(), filter, "--bundle", c.bundle, "-o", "json")
		var got struct {
			Good, Signatures bool
			Records          int
			Deeds            []struct{ Record int }
		}
		if jerr := json.Unmarshal([]byte(out), &got); err != nil || jerr != nil || !got.Good || !got.Signatures || got.Records != 4 {
			t.Errorf("%s: %v, %v, got %s", filter, err, jerr, out)
		}
		found := ""
		for _, d := range got.Deeds {
			found += fmt.Sprint(d.Record)
		}
		if found != want {
			t.Errorf("%s: found %q, want %q", filter, found, want)
		}
	}
}

// TestAuditVerifies: a chain that is broken, an order that is missing and a ledger that does not come are told, with what there is.
func TestAuditVerifies(t *testing.T) {
	c := audited(t)
	unsigned := audited(t)
	unsigned.add(ledger.Task{Task: "pull", Type: "PULL_IMAGE", By: "ann"})
	for name, tt := range map[string]struct {
		raw  []byte
		err  error
		code int
		want string
	}{
		"unsigned":   {unsigned.lines, nil, exit.Failed, "wrong: record 5 (task): order: it is missing"},
		"broken":     {append([]byte(strings.Replace(string(c.lines), "sl-0", "sl-1", 1)), make([]byte, 1<<20)...), nil, exit.Failed, "wrong: record 4 (reset): prev: broken chain"},
		"cut off":    {c.lines[:len(c.lines)-1], nil, exit.Failed, "wrong: record 4: line: the file ends within it"},
		"not served": {c.lines, connect.NewError(connect.CodePermissionDenied, errors.New("no")), exit.Denied, ""},
	} {
		out, _, err := on(t, &ledgerAPI{raw: tt.raw, err: tt.err}, "", "audit", "--sn=h")
		if err == nil || exit.Code(err) != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "banned") == (name == "not served") {
			t.Errorf("%s: %v (code %d), got\n%s", name, err, exit.Code(err), out)
		}
	}
	for _, bad := range [][]string{{"--who=ann"}, {"--since=soon"}, {"--bundle=none.pem"}} {
		if _, _, err := on(t, &ledgerAPI{raw: c.lines}, "", append([]string{"audit", "--sn=h"}, bad...)...); exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, _, err := on(t, &ledgerAPI{}, "", "audit", c.file()+"x"); exit.Code(err) != exit.NotFound {
		t.Errorf("no file: %v", err)
	}
}
