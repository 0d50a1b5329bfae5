package daemon_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/daemon"
)

// unused is a loopback address with a port that nobody has.
func unused(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// scrape reads the metrics of what has logged where they are, and wants promtool to find nothing wrong with them.
func scrape(t *testing.T, log string) string {
	t.Helper()
	found := regexp.MustCompile(`metrics are served url=(\S+)`).FindStringSubmatch(log)
	if found == nil {
		t.Fatalf("nothing says where metrics are served:\n%s", log)
	}
	res, err := http.Get(found[1])
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if path, err := exec.LookPath("promtool"); err == nil {
		cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
		cmd.Stdin = strings.NewReader(string(body))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
	return string(body)
}

// TestMetricsOfTheAuthority: it serves them where it is told to, and says what is wrong with an address.
func TestMetricsOfTheAuthority(t *testing.T) {
	dir, err := os.MkdirTemp("", "auth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	code, _, errs := swarmd(t, dir, "run-authority", "--dir", dir, "--metrics", "9464")
	if code != 1 || !strings.Contains(errs, "--metrics 9464: want HOST:PORT, such as 127.0.0.1:9464") {
		t.Errorf("%d %s", code, errs)
	}
	out := &output{more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- daemon.Main([]string{"swarmd", "run-authority", "--dir", dir, "--metrics", unused(t)}, daemon.Env{
			Stdout: out, Stderr: out,
			Getenv:  func(k string) string { return map[string]string{"SWARM_METRICS": "192.0.2.1:1"}[k] }, // its node's, not its own
			Signals: func(context.Context) (context.Context, context.CancelFunc) { return ctx, cancel },
		})
	}()
	for limit := time.After(time.Minute); !strings.Contains(out.String(), "embedded authority started"); {
		select {
		case <-out.more:
		case <-limit:
			t.Fatal(out)
		}
	}
	told := scrape(t, out.String())
	for _, want := range []string{"\nswarmd_svids_issued_total{role=\"sl\"} 0\n", "\nswarmd_workloads{role=\"sn\"} 0\n", "\nswarmd_ca_expiry_timestamp_seconds ", "\nprocess_resident_memory_bytes ", "\ngo_goroutines "} {
		if !strings.Contains(told, want) {
			t.Errorf("its metrics lack %q:\n%s", want, told)
		}
	}
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("it ended with %d:\n%s", code, out)
	}
}
