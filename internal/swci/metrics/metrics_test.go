package metrics_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

func ptr[T any](v T) *T { return &v }

func TestParse(t *testing.T) {
	sha := strings.Repeat("ab", 32)
	tests := []struct {
		name, line string
		want       metrics.Event
		bad        bool
	}{
		{name: "epoch", line: `{"event":"epoch","ts":1.5,"epoch":3,"loss":0.25,"metric":null,"round":7}`, want: metrics.Event{Kind: "epoch", TS: 1.5, Epoch: 3, Loss: ptr(0.25), Round: 7}},
		{name: "end", line: `{"event":"end","ts":1,"round":9,"rounds":9,"loss":null,"metric":0.5,"model_sha256":"` + sha + `","loopback":false}`, want: metrics.Event{Kind: "end", TS: 1, Round: 9, Rounds: 9, Metric: ptr(0.5), ModelSHA256: sha}},
		{name: "named metric", line: `{"event":"epoch","metric":0.5,"metric_name":"AUROC"}`, want: metrics.Event{Kind: "epoch", Metric: ptr(0.5), MetricName: "AUROC"}},
		{name: "name that hides something", line: `{"event":"epoch","metric":0.5,"metric_name":"\u001b[2J"}`, want: metrics.Event{Kind: "epoch", Metric: ptr(0.5)}},
		{name: "versions", line: `{"event":"start","sync_frequency":4,"versions":{"python":"3.11.2","torch":"1\u001b[2J"}}`, want: metrics.Event{Kind: "start", SyncFrequency: 4, Versions: map[string]string{"python": "3.11.2"}}},
		{name: "the swarm's digest", line: `{"event":"end","digest":"` + sha + `"}`, want: metrics.Event{Kind: "end", Digest: sha}},
		{name: "the swarm's digest that is none", line: `{"event":"end","digest":"<b>"}`, bad: true},
		{name: "unknown fields are left", line: `{"event":"start","new":{"a":1}}`, want: metrics.Event{Kind: "start"}},
		{name: "unknown event", line: `{"event":"boom"}`, bad: true},
		{name: "not JSON", line: `Traceback (most recent call last):`, bad: true},
		{name: "half a line", line: `{"event":"epoch","ts":1.5,"ep`, bad: true},
		{name: "NaN", line: `{"event":"epoch","loss":NaN}`, bad: true},
		{name: "number too large for a float", line: `{"event":"epoch","loss":1e999}`, bad: true},
		{name: "negative counter", line: `{"event":"epoch","epoch":-1}`, bad: true},
		{name: "huge counter", line: `{"event":"epoch","epoch":99999999999}`, bad: true},
		{name: "digest that is none", line: `{"event":"end","model_sha256":"<script>"}`, bad: true},
		{name: "empty participant", line: `{"event":"merge","participants":[""]}`, bad: true},
		{name: "array", line: `[1,2]`, bad: true},
		{name: "too long", line: `{"event":"start","x":"` + strings.Repeat("x", 70_000) + `"}`, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metrics.Parse([]byte(tt.line))
			if (err != nil) != tt.bad {
				t.Fatalf("Parse: error %v, want error: %v", err, tt.bad)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTailFollowsAFileThatIsWrittenInPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	tail := metrics.Tail{Path: path}
	epochs := func(want ...int64) {
		t.Helper()
		events, err := tail.Next()
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, e := range events {
			got = append(got, e.Epoch)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("epochs (-want +got):\n%s", diff)
		}
	}
	write := func(s string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	epochs()
	write(`{"event":"epoch","epoch":1}` + "\n" + `{"event":"epoch",`)
	epochs(1)
	epochs()
	write(`"epoch":2}` + "\nnonsense\n\n" + strings.Repeat("y", 200_000))
	epochs(2)
	write("y\n" + `{"event":"epoch","epoch":3}` + "\n")
	epochs(3)
	if tail.Skipped != 2 {
		t.Errorf("skipped %d lines, want 2", tail.Skipped)
	}
	if err := os.WriteFile(path, []byte(`{"event":"epoch","epoch":9}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	epochs(9)
}

func TestReadFile(t *testing.T) {
	events, skipped, err := metrics.ReadFile(filepath.Join(t.TempDir(), "absent"))
	if len(events) != 0 || skipped != 0 || err != nil {
		t.Errorf("absent file: %v, %d, %v", events, skipped, err)
	}
	if _, _, err := metrics.ReadFile(t.TempDir()); err == nil {
		t.Error("a directory was read as metrics")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := metrics.ReadFile(pipe); err == nil {
		t.Error("a pipe was read as metrics")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"event":"merge","ts":1,"round":1,"participants":["sl-0"],"seconds":0.1}`))
	f.Add([]byte(`{"event":"end","model_sha256":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := metrics.Parse(line)
		if err == nil && (e.Epoch < 0 || e.Round < 0 || e.Seconds < 0 || len(e.Participants) > 4096) {
			t.Errorf("accepted %+v", e)
		}
	})
}
