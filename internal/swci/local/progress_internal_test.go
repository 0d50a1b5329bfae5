package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgressOfPeersAlone(t *testing.T) {
	var got bytes.Buffer
	now := time.Unix(1000, 0)
	h := Host{Stderr: &got, Now: func() time.Time { return now }}
	cfg := &RunConfig{Peers: 2, Out: t.TempDir()}
	p := newProgress(cfg, h, NewBoard(h), nil)
	p.set(1, phaseQueued)
	step := func(after time.Duration, metrics string) {
		now = now.Add(after)
		if metrics != "" {
			path := cfg.metricsPath(0, true)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(metrics), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p.poll(context.Background())
	}
	begun := `{"event":"start","ts":1,"total_epochs":9}` + "\n" + `{"event":"epoch","ts":2,"epoch":3,"loss":0.5,"metric":0.25}` + "\n"
	step(0, "")
	step(30*time.Second, "")
	step(40*time.Second, "") // a minute has passed: its program has still not begun
	step(time.Minute, begun)
	p.ended(0, "done")
	p.set(1, phaseStarting)
	step(time.Minute, begun+`{"event":"end","ts":3,"epoch":9,"loss":0.25,"metric":0.75,"metric_name":"AUROC"}`+"\n")
	want := `sl-0 alone   epoch 0        loss -        accuracy -       starting
sl-1 alone   epoch 0        loss -        accuracy -       waits for a processor
sl-0 alone   epoch 0        loss -        accuracy -       starting for 1m10s
sl-0 alone   epoch 3/9      loss 0.5      accuracy 0.25    training
sl-0 alone   epoch 9/9      loss 0.25     AUROC 0.75    done
sl-1 alone   epoch 0        loss -        accuracy -       starting for 1m0s
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// TestTrains: the line of a peer that is ready does not say that the swarm waits for its training.
func TestTrains(t *testing.T) {
	const ( // as consensus/planner/testdata/waiting.golden has them
		still = "waiting for sl-0, sl-2 (still training) since 12:03:10; starts without them at 12:03:40"
		few   = "waiting for 1 more peer: have sl-1; need 2 (minPeers)"
	)
	for _, x := range []struct {
		waiting, peer string
		want          bool
	}{
		{still, "sl-0", true},
		{still, "sl-2", true},
		{still, "sl-1", false},
		{still, "sl-20", false},
		{few, "sl-1", false},
		{"", "sl-1", false},
	} {
		if got := trains(x.waiting, x.peer); got != x.want {
			t.Errorf("%q trains by %q: %v", x.peer, x.waiting, got)
		}
	}
}
