package events_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/events"
)

// open opens events, and returns what is logged.
func open(path string) (*events.Store, *bytes.Buffer) {
	var said bytes.Buffer
	return events.Open(path, "sn-0", slog.New(slog.NewTextHandler(&said, nil))), &said
}

// running has a store written for so long.
func running(t *testing.T, s *events.Store, long time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// texts are those of the newest events.
func texts(s *events.Store) (out []string) {
	list, _, _ := s.Newest(events.Most)
	for _, e := range list {
		out = append(out, e.Text)
	}
	return out
}

// TestEventsOutliveARestart: what was noticed and what others have told, each once, and the numbers go on.
func TestEventsOutliveARestart(t *testing.T) { synctest.Test(t, eventsOutliveARestart) }

func eventsOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), events.File)
	s, _ := open(path)
	s.Note(events.Event{Kind: events.Leader, Node: "sn-1", Count: 3, Text: "term 3"})
	time.Sleep(time.Second)
	s.Note(events.Event{Kind: events.Leader, Node: "sn-1", Count: 3, Text: "again"}) // the same one
	s.Note(events.Event{AtMS: 5, Kind: events.Silent, Node: "sl-1", Text: "older"})
	told := []events.Event{{Number: 8, AtMS: 5, Kind: events.Silent, Node: "sl-1", Text: "the same"}, {Number: 9, AtMS: 6, Kind: events.Silent, Node: "sl-2", Text: "theirs"}}
	if bad := s.Take("sn-1", told); bad != 0 {
		t.Errorf("%d can't be kept", bad)
	}
	running(t, s, time.Second)
	want := fmt.Sprint([]string{"term 3", "theirs", "older"})
	numbers := fmt.Sprint(s.Own(0, 9))
	for range 2 {
		again, said := open(path)
		if got := fmt.Sprint(texts(again)); got != want || fmt.Sprint(again.Own(0, 9)) != numbers || again.Heard("sn-1") != 9 || said.Len() > 0 {
			t.Errorf("after a restart: %s, %v, heard up to %d, said %s", got, again.Own(0, 9), again.Heard("sn-1"), said)
		}
		s = again
	}
	_, older, before := s.Newest(1)
	s.Note(events.Event{Kind: events.QuorumLost, Node: "sn-0"})
	own := s.Own(0, 9)
	if _, _, after := s.Newest(1); after <= before || older != 2 || len(own) != 3 || own[2].Number <= own[1].Number || len(s.Own(own[1].Number, 9)) != 1 || len(s.Own(0, 2)) != 2 {
		t.Errorf("version %d after %d, %d older, own %v", after, before, older, own)
	}
}

// TestEventsAreBounded: in number and in the file; who tells many crowds out only its own.
func TestEventsAreBounded(t *testing.T) { synctest.Test(t, eventsAreBounded) }

func eventsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), events.File)
	s, _ := open(path)
	for i := range 100 {
		s.Note(events.Event{AtMS: int64(i + 10), Kind: events.Silent, Node: "sl-1"})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	for i := range 2 * events.Most {
		long := strings.Repeat("x", 10*(i%1000))
		if bad := s.Take("sn-1", []events.Event{{Number: uint64(i + 1), AtMS: int64(i + 1000), Kind: events.Silent, Node: "sl-2", Text: long}}); bad != 0 {
			t.Fatalf("event %d can't be kept", i)
		}
		if i%500 == 0 {
			time.Sleep(time.Second)
		}
	}
	s.Note(events.Event{AtMS: 1, Kind: events.Silent, Node: "sl-3"}) // older than all there is room for
	time.Sleep(time.Second)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	list, gone, _ := s.Newest(2 * events.Most)
	if want := 100 + events.Most + 1; gone != want {
		t.Errorf("%d older ones were left out, want %d", gone, want)
	}
	if own := s.Own(0, events.Most); len(list) != events.Most || len(own) != 100 || len(list[0].Text) > 500 || list[0].AtMS != int64(2*events.Most+999) {
		t.Errorf("%d are kept, %d own, the newest %+v", len(list), len(own), list[0])
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 3*events.Most*1024 {
		t.Errorf("the file: %v, %d bytes", err, info.Size())
	}
	again, said := open(path)
	kept, older, _ := again.Newest(events.Most)
	if older != gone && older != gone-1 { // that for which there was never room may be in no file
		t.Errorf("after a restart %d older ones were left out, before %d", older, gone)
	}
	if _, hidden, _ := again.Newest(10); hidden != older+events.Most-10 {
		t.Errorf("besides 10 %d older ones are left out", hidden)
	}
	if len(kept) != events.Most || len(again.Own(0, events.Most)) != 100 || said.Len() > 0 {
		t.Errorf("after a restart %d are kept, %d own, said %s", len(kept), len(again.Own(0, events.Most)), said)
	}
}

// TestDamagedEvents: lines that are damaged, too long or cut off are left out, which is said once, and the file is whole again with the next event.
func TestDamagedEvents(t *testing.T) { synctest.Test(t, damagedEvents) }

func damagedEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), events.File)
	s, _ := open(path)
	for i := range 4 {
		s.Note(events.Event{AtMS: int64(i + 1), Kind: events.Silent, Node: "sl-1", Text: fmt.Sprintf("no. %d", i)})
	}
	running(t, s, time.Second)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines[1] = bytes.Replace(lines[1], []byte("no. 1"), []byte("no. 7"), 1)
	lines[2] = append(bytes.Repeat([]byte("y"), 100_000), '\n')
	if err := os.WriteFile(path, bytes.Join(lines, nil)[:len(whole)+100_001-len(bytes.SplitAfter(whole, []byte("\n"))[2])-3], 0o600); err != nil {
		t.Fatal(err)
	}
	s, said := open(path)
	if got := fmt.Sprint(texts(s)); got != "[no. 0]" || !strings.Contains(said.String(), "lines_left_out=3") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("kept %s, said %s", got, said)
	}
	s.Note(events.Event{AtMS: 9, Kind: events.Silent, Node: "sl-1", Text: "new"})
	running(t, s, time.Second)
	s, said = open(path)
	if got := fmt.Sprint(texts(s)); got != "[new no. 0]" || said.Len() > 0 {
		t.Errorf("then %s, said %s", got, said)
	}
}

// TestADiskThatTakesNothing holds nobody up, is said once, and the events are written when it takes them.
func TestADiskThatTakesNothing(t *testing.T) { synctest.Test(t, aDiskThatTakesNothing) }

func aDiskThatTakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	s, said := open(filepath.Join(dir, events.File))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	for i := range 3 {
		s.Note(events.Event{AtMS: int64(i + 1), Kind: events.Silent, Node: "sl-1", Text: fmt.Sprintf("no. %d", i)})
		time.Sleep(20 * time.Second)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Second)
	stop()
	<-ended
	if log := said.String(); strings.Count(log, "could not keep events") != 1 || !strings.Contains(log, "free space") || !strings.Contains(log, "kept again") {
		t.Errorf("said %s", log)
	}
	if again, _ := open(filepath.Join(dir, events.File)); fmt.Sprint(texts(again)) != "[no. 2 no. 1 no. 0]" {
		t.Errorf("written are %v", texts(again))
	}
}

// TestAFileThatDoesNotOpen: the events are in memory, which is said, and the file is left as it is.
func TestAFileThatDoesNotOpen(t *testing.T) { synctest.Test(t, aFileThatDoesNotOpen) }

func aFileThatDoesNotOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), events.File)
	if err := os.Symlink(path, path); err != nil { // a loop
		t.Fatal(err)
	}
	s, said := open(path)
	s.Note(events.Event{Kind: events.Silent, Node: "sl-1", Text: "seen"})
	running(t, s, time.Second)
	if got := fmt.Sprint(texts(s)); got != "[seen]" || !strings.Contains(said.String(), "not kept over a restart") {
		t.Errorf("%s, said %s", got, said)
	}
}

// TestWhatOthersTellIsChecked: what another SN says is bounded and of visible characters, is never this SN's own, and what this SN has noticed itself counts
// more.
func TestWhatOthersTellIsChecked(t *testing.T) {
	s, _ := open("")
	good := events.Event{Number: 1, AtMS: 1, Kind: "some_day", Node: "sl-1", Contract: "c", Text: "a\x1b[31mb\nc", By: "sn-0"}
	bad := []func(*events.Event){
		func(e *events.Event) { e.Number = 0 },
		func(e *events.Event) { e.AtMS = 0 },
		func(e *events.Event) { e.AtMS = time.Now().Add(time.Hour).UnixMilli() },
		func(e *events.Event) { e.Kind = "" },
		func(e *events.Event) { e.Kind = "No Kind" },
		func(e *events.Event) { e.Kind = events.Kind(strings.Repeat("k", 33)) },
		func(e *events.Event) { e.Node = "no\nname" },
		func(e *events.Event) { e.Node = strings.Repeat("n", 300) },
		func(e *events.Event) { e.Contract = "../c" },
	}
	for i, change := range bad {
		e := good
		if change(&e); s.Take("sn-1", []events.Event{e}) != 1 {
			t.Errorf("no. %d is kept: %+v", i, e)
		}
	}
	if s.Take("sn-0", []events.Event{good}) != 1 {
		t.Error("another SN speaks for this one")
	}
	if s.Take("sn-1", []events.Event{good, good}) != 1 { // the second is older than what was heard
		t.Error("one event is taken twice")
	}
	list, _, _ := s.Newest(9)
	if len(list) != 1 || list[0].By != "sn-1" || strings.ContainsAny(list[0].Text, "\x1b\n") {
		t.Errorf("kept are %+v", list)
	}
	claim := events.Event{Number: 2, AtMS: 2, Kind: events.AttemptFailed, Contract: "c", Run: 1, Round: 7, Attempt: 1, Text: "sl-9 is to blame"}
	s.Take("sn-1", []events.Event{claim})
	claim.Text = "sl-2 is lost"
	s.Note(claim)
	if list, _, _ = s.Newest(9); len(list) != 2 || list[0].Text != "sl-2 is lost" || list[0].By != "sn-0" {
		t.Errorf("kept are %+v", list)
	}
}
