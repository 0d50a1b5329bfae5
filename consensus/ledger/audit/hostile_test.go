package audit_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
)

// TestHugeKeysAreNotTried: a signature by a key as large as a record takes longer to check than anybody waits.
func TestHugeKeysAreNotTried(t *testing.T) {
	b, o := genuine(t)
	huge := &rsa.PublicKey{N: new(big.Int).SetBit(new(big.Int).Lsh(big.NewInt(1), 45_000), 0, 1), E: 1<<31 - 1}
	ca := newAuthority(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, huge, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	r := newNode(t, "sl-9").register(t, ca)
	r.Chain, r.Signature = [][]byte{der}, make([]byte, huge.Size())
	b.add(r)
	report := verify(t, b.bytes, o)
	if report.Good() || !strings.Contains(report.Problems[0].What, "an RSA key of 45001 bits") {
		t.Errorf("%v", report.Problems)
	}
}

// TestWhatIsSaidIsBounded: names in a hostile file are not printed at their length.
func TestWhatIsSaidIsBounded(t *testing.T) {
	b, o := genuine(t)
	b.add(ledger.Unban{PeerID: strings.Repeat("é", 1<<19)})
	report := verify(t, b.bytes, o)
	if report.Good() || len(report.Problems[0].What) > 1100 {
		t.Errorf("%d problems, the first has %d bytes", len(report.Problems), len(report.Problems[0].What))
	}
}

// FuzzJudge chains whatever records there are, so that their bodies are judged: a line of the input is a kind and a body.
func FuzzJudge(f *testing.F) {
	b, o := genuine(&testing.T{})
	var all []byte
	for _, e := range b.entries {
		raw, err := json.Marshal(e.body)
		if err != nil {
			f.Fatal(err)
		}
		line := append(append([]byte(e.body.Kind()+" "), raw...), '\n')
		f.Add(line)
		all = append(all, line...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, raw []byte) {
		chained := rechain(raw)
		r, err := audit.Verify(bytes.NewReader(chained), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Good() && r.Rounds > 0 { // what participants signed as their past is another
			t.Error("a forged round is good")
		}
	})
}

// FuzzRecord parses and judges single records behind a genuine ledger: no keys are made for it, so it gets through many.
func FuzzRecord(f *testing.F) {
	b, o := genuine(&testing.T{})
	judge, orders := audit.After(b.bytes, o), verify(&testing.T{}, b.bytes, o).Orders
	for _, e := range b.entries {
		raw, err := json.Marshal(e.body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.body.Kind(), raw)
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		if r := judge(kind, body); r != nil && r.Good() && (kind == "round" || r.Orders > orders) {
			t.Errorf("a forged record of kind %s is good: %s", kind, body)
		}
	})
}

// rechain makes a ledger of the lines that are records of any kind.
func rechain(raw []byte) (out []byte) {
	var head ledger.Head
	for line := range bytes.Lines(raw) {
		kind, body, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !ok || !json.Valid(body) {
			continue
		}
		prev := head.Hash
		if head.Length == 0 {
			prev = ledger.None
		}
		made, err := json.Marshal(ledger.Record{V: ledger.Version, Seq: head.Length + 1, Prev: prev, Kind: string(kind), AtMS: start.UnixMilli(), Body: body})
		if err != nil {
			continue
		}
		made = append(made, '\n')
		if head, err = ledger.Follow(head, made); err != nil {
			return append(out, made...)
		}
		out = append(out, made...)
	}
	return out
}
