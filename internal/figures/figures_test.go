package figures_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/figures"
	"github.com/swarmd/swarmd/internal/logs"
)

const at = `"taken_at":"2026-11-28T10:00:00Z"`

// TestRead: what a node says of itself is held to its bounds, and is safe to show.
func TestRead(t *testing.T) {
	gpus := strings.Repeat(`{},`, 65)
	for sent, want := range map[string]string{
		`{` + at + `}`: "",
		`{"taken_at":"2026-11-28T12:00:00+02:00","cpus":8,"load_1":0.5,"of_a_later_version":[{}]}`: "",
		`{` + at + `,"memory_total_bytes":10,"memory_available_bytes":10}`:                         "",
		``:                                     "another form",
		`[]`:                                   "another form",
		`{}`:                                   "another form",
		`{"taken_at":"now"}`:                   "another form",
		`{"taken_at":"0001-01-01T00:00:00Z"}`:  "another form",
		`{` + at + `,"cpus":"8"}`:              "another form",
		`{` + at + `,"cpus":-1}`:               "another form",
		`{` + at + `,"load_1":1e999}`:          "another form",
		`{` + at + `,"gpus":[` + gpus + `{}]}`: "another form",
		`{` + at + `,"cpus":9007199254740993}`: "can't be right",
		`{` + at + `,"load_5":-0.1}`:           "can't be right",
		`{` + at + `,"load_15":1e9}`:           "can't be right",
		`{` + at + `,"daemon_cpu_seconds":-1}`: "can't be right",
		`{` + at + `,"memory_total_bytes":10,"memory_available_bytes":11}`:          "can't be right",
		`{` + at + `,"disk_total_bytes":10,"disk_free_bytes":11}`:                   "can't be right",
		`{` + at + `,"gpus":[{"memory_total_bytes":10,"memory_used_bytes":11}]}`:    "can't be right",
		`{` + at + `,"gpus":[{"busy_percent":101}]}`:                                "can't be right",
		`{` + at + `,"gpus":[{"name":"` + strings.Repeat("x", 40<<10) + `"}]}`:      "more than 32768",
		`{` + at + `,"gpus":[{"name":"` + strings.Repeat("x", 200) + `\n\u001b"}]}`: "",
	} {
		f, err := figures.Read([]byte(sent))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || f.TakenAt != "") {
			t.Errorf("%.80s: %+v, %v", sent, f, err)
		}
		if err == nil && f.TakenAt != "2026-11-28T10:00:00Z" {
			t.Errorf("%.80s: taken at %s", sent, f.TakenAt)
		}
		for _, g := range f.GPUs {
			if len(g.Name) > 128 || strings.ContainsAny(g.Name, "\n\x1b") {
				t.Errorf("a GPU is called %q", g.Name)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{` + at + `,"gpus":[{"name":"x","memory_total_bytes":3,"memory_used_bytes":2,"busy_percent":1}],"load_1":0.25}`))
	f.Fuzz(func(t *testing.T, sent []byte) {
		got, err := figures.Read(sent)
		if err != nil {
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := figures.Read(again); err != nil || fmt.Sprint(same.TakenAt, len(same.GPUs)) != fmt.Sprint(got.TakenAt, len(got.GPUs)) {
			t.Fatalf("%s: %v", again, err)
		}
	})
}

// own is a log of one line.
type own struct{}

func (own) Log(_ context.Context, _ logs.Wanted, emit func(logs.Line) error) error {
	return emit(logs.Line{Text: "a line"})
}

// TestBeside: figures of this machine stand beside the log, and are within the bounds that others hold them to.
func TestBeside(t *testing.T) {
	ask := func(s logs.Source, w logs.Wanted) (sent string) {
		t.Helper()
		err := s.Log(t.Context(), w, func(l logs.Line) error {
			sent += l.Text
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	s := figures.Beside(own{}, t.TempDir(), func() figures.Open { return figures.Open{Out: 3, In: 2, Peers: -1} })
	if got := ask(s, logs.Wanted{Tail: 1}); got != "a line" {
		t.Errorf("the log is %q", got)
	}
	f, err := figures.Read([]byte(ask(s, logs.Wanted{Figures: true})))
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]*uint64{"CPUs": f.CPUs, "memory": f.MemoryTotal, "memory that is free": f.MemoryFree, "own memory": f.MemoryOwn, "disk": f.DiskTotal} {
		if n == nil || *n == 0 {
			t.Errorf("%s: not found out", name)
		}
	}
	if f.Load1 == nil || f.CPUSeconds == nil || f.UpSeconds == nil || f.DiskFree == nil {
		t.Errorf("%+v", f)
	}
	if f.Peers != nil || *f.StreamsOut != 3 || *f.StreamsIn != 2 {
		t.Errorf("streams: %v %v %v", *f.StreamsOut, *f.StreamsIn, f.Peers)
	}
	none, err := figures.Read([]byte(ask(figures.Beside(nil, "/no such directory", nil), logs.Wanted{Figures: true})))
	if err != nil || none.DiskTotal != nil || none.DiskFree != nil || none.StreamsIn != nil || none.CPUs == nil {
		t.Errorf("of a node without its own: %+v, %v", none, err)
	}
	if got := ask(figures.Beside(nil, "", nil), logs.Wanted{Tail: 1}); got != "" {
		t.Errorf("a node that keeps no log has %q", got)
	}
}
