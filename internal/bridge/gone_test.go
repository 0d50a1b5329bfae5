package bridge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/bridge"
)

// TestProgramsThatEnd: of a program that keeps its connection the end is told, once, though it has connected anew before; of one that
// makes a connection for each call it is not, as nobody knows whether it comes back.
func TestProgramsThatEnd(t *testing.T) {
	if dir := os.Getenv("BRIDGE_OF_PROGRAM"); dir != "" {
		train(t, dir, os.Getenv("BRIDGE_KEEPS") != "")
		return
	}
	gone := make(chan string, 4)
	e := &engine{}
	dir := filepath.Join(t.TempDir(), "b")
	s, err := bridge.NewServer(bridge.Config{
		Dir: dir, SpillDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Handler: e, Status: e.status, MaxModel: 1 << 30,
		Gone: func(_ context.Context, session string) { gone <- session },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.server = s
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	<-s.Ready()
	killProgram(t, dir, "") // first: departures are looked at in their order
	killProgram(t, dir, "yes")
	if got := <-gone; got != "s" {
		t.Errorf("told of %q, want the session", got)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if len(gone) != 0 {
		t.Errorf("told of %q too", <-gone)
	}
	if e.slots != nil {
		_ = e.slots.Close()
	}
}

// killProgram starts a program, this test's own binary, and kills it while it trains.
func killProgram(t *testing.T, dir, keeps string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgramsThatEnd$")
	cmd.Env = append(os.Environ(), "BRIDGE_OF_PROGRAM="+dir, "BRIDGE_KEEPS="+keeps)
	stdin, err := cmd.StdinPipe() // so that it waits
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "trains" {
		said = append(said, lines.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("%v: %q", err, said)
	}
	_ = cmd.Wait() // killed
	if len(said) != 0 {
		t.Fatalf("the program says %q", said)
	}
}

// train opens a session and calls in it, then says so and waits for its end.
func train(t *testing.T, dir string, keeps bool) {
	t.Helper()
	c := httpClient(t, dir)
	for _, call := range []string{"open", "report", "anew", "report"} {
		path, body := "/v1/report", `{"session":"s","round":0,"epochs_done":1}`
		switch call {
		case "open":
			path, body = "/v1/session", openBody
		case "anew":
			c.CloseIdleConnections()
		}
		if code, m := post(t, c, path, body); code != 200 {
			t.Fatalf("%s: %d %v", call, code, m)
		}
		if !keeps {
			c.CloseIdleConnections()
		}
	}
	fmt.Println("trains")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
