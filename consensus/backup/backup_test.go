package backup_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/claim"
)

const swarmID = "0123456789abcdef0123456789abcdef"

// story is a swarm with a ledger, and the ledger's lines.
func story(t testing.TB) (*state.State, []byte) {
	t.Helper()
	s, lines := state.New(), []byte(nil)
	commands := []state.Command{state.InitSwarm{SwarmID: swarmID, AtMS: 1}}
	for i := range 5 {
		commands = append(commands, state.BundleOf("hospital.example", [][]byte{{byte(i)}}, int64(i)))
	}
	for _, c := range commands {
		next, result, err := s.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		s, lines = next, append(lines, bytes.Join(result.Records, nil)...)
	}
	return s, lines
}

// source has the ledger go on behind the state, as it does on an SN that serves.
func source(s *state.State, lines []byte) backup.Source {
	lines = append(bytes.Clone(lines), "what came later\n"...)
	return backup.Source{
		AtMS: 1234, Confirmed: true, Index: 77, State: s,
		Origin: backup.Origin{SN: "sn-1", Options: map[string]string{"host-ip": "192.0.2.1"}, Bundles: map[string][][]byte{"hospital.example": {{1}}}},
		Ledger: func(offset uint64) ([]byte, error) { return lines[offset:min(offset+700, uint64(len(lines)))], nil },
	}
}

func write(t testing.TB, s backup.Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := backup.Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadsWhatItWrote(t *testing.T) {
	s, lines := story(t)
	file := write(t, source(s, lines))
	var got bytes.Buffer
	b, err := backup.Read(bytes.NewReader(file), func(_ ledger.Head, line []byte) error {
		got.Write(line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), lines) {
		t.Errorf("the ledger has %d bytes, want %d", got.Len(), len(lines))
	}
	want, _ := state.EncodeSnapshot(s)
	again, _ := state.EncodeSnapshot(b.State)
	if !bytes.Equal(again, want) {
		t.Error("the state is another")
	}
	src := source(s, lines)
	h := backup.Header{SwarmID: swarmID, AtMS: 1234, Index: 77, Confirmed: true, State: uint64(8 + len(want)), Ledger: s.LedgerHead(), Origin: src.Origin}
	if diff := cmp.Diff(h, b.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if h, err := backup.ReadHeader(bytes.NewReader(file)); err != nil || h.Index != 77 {
		t.Errorf("the header alone: %+v, %v", h, err)
	}
	stop := errors.New("no room")
	if _, err := backup.Read(bytes.NewReader(file), func(ledger.Head, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a line that was not taken: %v", err)
	}
}

// TestDigestIsThatOfTheShell holds what the package's doc says of head, tail and sha256sum.
func TestDigestIsThatOfTheShell(t *testing.T) {
	file := write(t, source(story(t)))
	sum := sha256.Sum256(file[:len(file)-65])
	if got := string(file[len(file)-65:]); got != hex.EncodeToString(sum[:])+"\n" {
		t.Errorf("the file ends in %q", got)
	}
	if first, _, _ := strings.Cut(string(file), "\n"); first != "swarmd backup 1" {
		t.Errorf("the file begins with %q", first)
	}
}

// TestNothingDamagedIsTaken changes each byte, cuts the file at each, and adds one.
func TestNothingDamagedIsTaken(t *testing.T) {
	file := write(t, source(story(t)))
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 1
		if _, err := backup.Read(bytes.NewReader(bad), nil); !known(err) {
			t.Fatalf("byte %d of %d changed: %v", i, len(file), err)
		}
		if i%5 != 0 {
			continue
		}
		if _, err := backup.Read(bytes.NewReader(file[:i]), nil); !known(err) {
			t.Fatalf("cut off at byte %d of %d: %v", i, len(file), err)
		}
	}
	if _, err := backup.Read(bytes.NewReader(file[:len(file)/2]), nil); !errors.Is(err, backup.ErrCutOff) {
		t.Errorf("half a file: %v", err)
	}
	if _, err := backup.Read(bytes.NewReader(append(bytes.Clone(file), '\n')), nil); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
	if _, err := backup.Read(strings.NewReader("{}\n"), nil); !errors.Is(err, backup.ErrNotBackup) {
		t.Errorf("another file: %v", err)
	}
	if _, err := backup.Read(strings.NewReader("swarmd backup 2\n"+strings.Repeat("x", 100)), nil); !errors.Is(err, backup.ErrVersion) {
		t.Errorf("a later format: %v", err)
	}
	gone := errors.New("stale handle")
	if _, err := backup.Read(io.MultiReader(bytes.NewReader(file[:100]), failing{gone}), nil); !errors.Is(err, gone) || known(err) {
		t.Errorf("a disk that fails: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func known(err error) bool {
	return errors.Is(err, backup.ErrNotBackup) || errors.Is(err, backup.ErrVersion) || errors.Is(err, backup.ErrCutOff) || errors.Is(err, backup.ErrDamaged)
}

// forge is a file with a right digest.
func forge(t *testing.T, header, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "swarmd backup 1\n%s\n", header)
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, body)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	return append(b.Bytes(), hex.EncodeToString(sum[:])+"\n"...)
}

// TestDigestAloneProvesNothing forges files whose digest is right.
func TestDigestAloneProvesNothing(t *testing.T) {
	s, lines := story(t)
	file := write(t, source(s, lines))
	_, rest, _ := strings.Cut(string(file), "\n")
	header, _, _ := strings.Cut(rest, "\n")
	encoded, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	good := "\x00\x00\x00\x00\x00\x00\x00\x4d" + string(encoded) + string(lines)
	if _, err := backup.Read(bytes.NewReader(forge(t, header, good)), nil); err != nil {
		t.Fatalf("what is not forged: %v", err)
	}
	if !strings.Contains(header, `"index":77,`) || !strings.Contains(header, swarmID) {
		t.Fatal(header)
	}
	for name, bad := range map[string][]byte{
		"index":             forge(t, strings.Replace(header, `"index":77,`, `"index":78,`, 1), good),
		"swarm":             forge(t, strings.Replace(header, swarmID, strings.Repeat("0", 32), 1), good),
		"record more":       forge(t, header, good+string(lines)),
		"record less":       forge(t, header, strings.TrimSuffix(good, string(lines[len(lines)-200:]))),
		"no ledger":         forge(t, header, strings.TrimSuffix(good, string(lines))),
		"ledger":            forge(t, header, strings.Replace(good, "hospital.example", "hospitol.example", 2)),
		"state of a TiB":    forge(t, strings.Replace(header, `"state_bytes":`, `"state_bytes":1`, 1)+strings.Repeat(" ", 3), good),
		"header of no end":  forge(t, strings.Repeat(" ", backup.MaxHeader+1), good),
		"line of no end":    forge(t, header, good+strings.Repeat("x", ledger.MaxRecord+1)),
		"header not strict": forge(t, strings.Replace(header, "{", `{"x":1,`, 1), good),
	} {
		if _, err := backup.Read(bytes.NewReader(bad), nil); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoBackupOfHalfALedger: an SN whose ledger fails or ends early gives none.
func TestNoBackupOfHalfALedger(t *testing.T) {
	src := source(story(t))
	for _, read := range []func(uint64) ([]byte, error){
		func(uint64) ([]byte, error) { return nil, nil },
		func(uint64) ([]byte, error) { return nil, errors.New("disk") },
	} {
		src.Ledger = read
		var b bytes.Buffer
		if err := backup.Write(&b, src); err == nil {
			t.Error("it was written")
		}
		if _, err := backup.Read(&b, nil); !known(err) {
			t.Errorf("what was written of it: %v", err)
		}
	}
}

// FuzzRead wants no panic, and of what is taken the same again.
func FuzzRead(f *testing.F) {
	file := write(f, source(story(f)))
	f.Add(file)
	f.Add(file[:200])
	f.Add([]byte("swarmd backup 1\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, whole := range []bool{false, true} {
			if whole { // past the digest
				sum := sha256.Sum256(b)
				b = append(bytes.Clone(b), hex.EncodeToString(sum[:])+"\n"...)
			}
			var lines []byte
			got, err := backup.Read(bytes.NewReader(b), func(_ ledger.Head, line []byte) error {
				lines = append(lines, line...)
				return nil
			})
			if err != nil {
				if !known(err) {
					t.Fatal(err)
				}
				continue
			}
			if h := got.State.LedgerHead(); h != got.Header.Ledger || h.Bytes != uint64(len(lines)) {
				t.Fatalf("a ledger of %d bytes, the head is %+v", len(lines), h)
			}
		}
	})
}

// TestTheStateIsTheLedgers: who writes the file can write the digest too, and the ledger's signatures say nothing of the state beside it.
func TestTheStateIsTheLedgers(t *testing.T) {
	s, lines := story(t)
	apply := func(commands ...state.Command) {
		t.Helper()
		for _, c := range commands {
			next, result, err := s.Apply(c)
			if err != nil {
				t.Fatal(err)
			}
			s, lines = next, append(lines, bytes.Join(result.Records, nil)...)
		}
	}
	register := func(name, role, key string) state.RegisterNode {
		return state.RegisterNode{
			Node: state.Node{Name: name, Role: role, PeerID: key, Host: "h"}, TokenHash: strings.Repeat("0", 64), AtMS: 5,
			Signature: []byte{1}, Chain: [][]byte{{2}},
		}
	}
	apply(
		register("sn-0", "sn", "idsn0"), register("sn-1", "sn", "idsn1"), register("sl-1", "sl", "idsl1"), register("sl-2", "sl", "idsl2"),
		state.BanNode{PeerID: "idsl2", AtMS: 6}, state.BanNode{PeerID: "idsn1", AtMS: 6}, state.UnbanNode{PeerID: "idsn1", AtMS: 7},
		state.CreateContract{Contract: "study", AtMS: 7}, state.CreateContract{Contract: "other", AtMS: 7}, state.PauseContract{Contract: "study", AtMS: 8},
		state.PauseContract{Contract: "other", AtMS: 8}, state.ResumeContract{HaltOrder: state.HaltOrder{Contract: "other", AtMS: 9}},
	)
	had := s.LedgerHead()
	recovery := ledger.Recovery{
		SwarmID: swarmID, Epoch: 2, Node: "sn-0", PeerID: "idsn0", By: "spiffe://x/swarm/swci", Signature: []byte{1},
		Had: ledger.Witness{Length: had.Length, Hash: had.Hash},
	}
	apply(state.RecoverSwarm{Recovery: recovery})
	if _, err := backup.Read(bytes.NewReader(write(t, source(s, lines))), nil); err != nil {
		t.Fatalf("as it is: %v", err)
	}
	node := func(s *state.State, name string, change func(*state.Node)) {
		n := *s.Nodes[name]
		change(&n)
		s.Nodes = maps.Clone(s.Nodes)
		s.Nodes[name] = &n
	}
	halt := func(s *state.State, name string, h *state.Halt) {
		c := *s.Contracts[name]
		c.Halt = h
		s.Contracts = maps.Clone(s.Contracts)
		s.Contracts[name] = &c
	}
	other := recovery
	other.PeerID = "idother"
	for want, change := range map[string]func(*state.State){
		`differ in whether node key "idsl2" is banned`: func(s *state.State) { s.Bans = nil },
		`differ in whether node key "idsn1" is banned`: func(s *state.State) {
			s.Bans = maps.Clone(s.Bans)
			s.Bans["idsn1"] = &state.Ban{PeerID: "idsn1", AtMS: 6}
		},
		`differ in whether contract "study" is paused`:   func(s *state.State) { halt(s, "study", nil) },
		`differ in whether contract "other" is paused`:   func(s *state.State) { halt(s, "other", &state.Halt{AtMS: 9}) },
		"node sl-1 with another key or role than record": func(s *state.State) { node(s, "sl-1", func(n *state.Node) { n.PeerID = "idmine" }) },
		"which is no registration":                       func(s *state.State) { node(s, "sl-1", func(n *state.Node) { n.Recorded = 1 }) },
		"of another founding of the group of SNs":        func(s *state.State) { s.Recoveries = []ledger.Recovery{other} },
		"of another founding":                            func(s *state.State) { s.Recoveries = nil },
		`SNs are admitted by "operator"`:                 func(s *state.State) { s.Admit = state.AdmitOperator },
	} {
		changed := *s
		change(&changed)
		_, err := backup.Read(bytes.NewReader(write(t, source(&changed, lines))), nil)
		if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestInvitationsOfTheStateAreTheLedgers: who could add one to a backup, or open one again, would get in as an SN.
func TestInvitationsOfTheStateAreTheLedgers(t *testing.T) {
	var lines []byte
	s := state.New()
	apply := func(commands ...state.Command) {
		t.Helper()
		for _, c := range commands {
			next, result, err := s.Apply(c)
			if err != nil {
				t.Fatal(err)
			}
			s, lines = next, append(lines, bytes.Join(result.Records, nil)...)
		}
	}
	secret := func(name string) []byte {
		sum := sha256.Sum256([]byte(name))
		return sum[:]
	}
	invite := func(name, word string) state.InviteNode {
		return state.InviteNode{Node: name, SPIFFEID: "spiffe://x/swarm/sn/" + name, Key: claim.KeyOf(secret(word)), ExpiresMS: 1000, By: "spiffe://x/swarm/swci", AtMS: 5}
	}
	apply(
		state.InitSwarm{SwarmID: swarmID, AtMS: 1, Founder: &state.Admission{Name: "sn-0", PeerID: "idsn0", AtMS: 1}},
		state.RecordBundle{TrustDomain: "x", Certificates: [][]byte{{1}}, AtMS: 2},
		invite("sn-1", "first"), invite("sn-2", "second"), invite("sn-2", "third"), invite("sn-3", "forgotten"), invite("sn-4", "by hand"), invite("sn-5", "again"),
		state.ClaimInvitation{
			Node: "sn-1", PeerID: "idsn1", SPIFFEID: "spiffe://x/swarm/sn/sn-1", Key: claim.KeyOf(secret("first")), Signature: claim.Sign(secret("first"), swarmID, "sn-1", "idsn1"), AtMS: 6,
		},
		state.ForgetNode{Node: "sn-3", AtMS: 7}, state.AdmitNode{Node: "sn-4", PeerID: "idsn4", AtMS: 7}, state.AdmitNode{Node: "sn-5", PeerID: "idsn5", AtMS: 7}, invite("sn-5", "later"),
		invite("sn-6", "of a node"), state.RegisterNode{Node: state.Node{Name: "sn-6", Role: "sl", PeerID: "idsn6", Host: "x"}, TokenHash: strings.Repeat("0", 64), AtMS: 8},
		state.SetLive{Node: "sn-6", AtMS: 9}, state.ForgetNode{Node: "sn-6", AtMS: 9},
	)
	if _, err := backup.Read(bytes.NewReader(write(t, source(s, lines))), nil); err != nil {
		t.Fatalf("as it is: %v", err)
	}
	set := func(number uint64, name, word, by string) func(*state.State) {
		return func(s *state.State) {
			s.Invitations = &state.Invitations{Made: s.Invitations.Made, Kept: maps.Clone(s.Invitations.Kept)}
			s.Invitations.Kept[name] = &state.Invitation{
				Number: number, Node: name, SPIFFEID: "spiffe://x/swarm/sn/" + name, Key: claim.KeyOf(secret(word)), ExpiresMS: 1000, By: "spiffe://x/swarm/swci", AtMS: 5, ClaimedBy: by,
			}
		}
	}
	for name, change := range map[string]func(*state.State){
		"open again":            set(1, "sn-1", "first", ""),
		"claimed by another":    set(1, "sn-1", "first", "idmine"),
		"the one before":        set(2, "sn-2", "second", ""),
		"another key":           set(3, "sn-2", "mine", ""),
		"what was taken back":   set(4, "sn-3", "forgotten", ""),
		"what went with a node": set(8, "sn-6", "of a node", ""),
		"what an admission did": set(5, "sn-4", "by hand", ""),
		"a new one":             set(5, "sn-9", "mine", ""),
		"the count":             func(s *state.State) { s.Invitations = &state.Invitations{Made: 6} },
	} {
		changed := *s
		change(&changed)
		if _, err := backup.Read(bytes.NewReader(write(t, source(&changed, lines))), nil); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "nvitation") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
