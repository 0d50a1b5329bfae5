package daemon_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/daemon"
)

// TestAPartThatIsStopped: an SL that is told to end before its program has, such as by an engine that is restarted, does not end as one that has
// trained. One that is nobody's part ends well.
func TestAPartThatIsStopped(t *testing.T) {
	for part, want := range map[string]int{"": 0, "--part=h-0/7/1/0": 1} {
		w := &ward{t: t, home: t.TempDir()}
		said := &said{}
		ctx, cancel := context.WithCancel(t.Context())
		args := []string{
			"swarmd", "run-sl", "--attach", "--host-ip=127.0.0.1", "--sn-ip=127.0.0.1", "--identity=embedded=" + filepath.Join(w.home, "none"), "--state-dir=" + filepath.Join(w.home, "sl"),
			"--bridge-dir=" + filepath.Join(w.home, "b"), fmt.Sprint("--sl-fs-port=", freePort(t)),
		}
		if part != "" {
			args = append(args, part)
		}
		code := make(chan int)
		go func() { code <- daemon.Main(args, w.env(ctx, said)) }()
		tick := time.NewTicker(10 * time.Millisecond)
		for !strings.Contains(said.String(), "waiting for an identity") {
			select {
			case <-tick.C:
			case got := <-code:
				t.Fatalf("it has ended with %d: %s", got, said)
			}
		}
		tick.Stop()
		cancel()
		if got := <-code; got != want || (want != 0) != strings.Contains(said.String(), "a part of assignment 7 on h-0, and was stopped before that was done") {
			t.Errorf("%s: exit code %d, %s", part, got, said.String())
		}
	}
}
