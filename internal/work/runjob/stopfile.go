package runjob

import (
	"context"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// stopFile ends a run when it is in its folder, whatever it has: whoever can write there can make it. failFile has a run with compat: oci fail.
const (
	stopFile = "stop"
	failFile = "stop_fail"
)

// stopLook is how long a host waits for a folder of a network to say whether it is there.
const stopLook = 500 * time.Millisecond

// stopFiles looks for those of runs, each time that their members are looked at. The zero value has none.
type stopFiles struct {
	mu  sync.Mutex
	all map[string]bool // folders at which one look goes on
}

// asks is what a member's host asks of its job: its end, if there is a stop file in the folder of its run, or with exits that count that it has failed. One
// that does not answer in time says nothing, and is not looked at again before it does.
func (s *stopFiles) asks(ctx context.Context, log *slog.Logger, folder string, exits bool) string {
	if folder == "" || !s.begin(folder) {
		return ""
	}
	found := make(chan string, 1)
	go func() { // it outlives the call if the folder does not answer
		asks := ""
		if _, err := os.Lstat(filepath.Join(folder, stopFile)); err == nil {
			asks = task.AskStop
		}
		if _, err := os.Lstat(filepath.Join(folder, failFile)); exits && err == nil {
			asks = task.AskFail
		}
		s.end(folder)
		found <- asks
	}()
	late := time.NewTimer(stopLook)
	defer late.Stop()
	select {
	case asks := <-found:
		return asks
	case <-ctx.Done():
	case <-late.C:
		log.WarnContext(ctx, "the folder of a run does not answer: nobody sees a stop file there", "folder", folder)
	}
	return ""
}

// part is how a member ended whose exit counts where there is such a file: it says so with its end, and has failed if the file says that.
func (s *stopFiles) part(ctx context.Context, log *slog.Logger, folder string, q question, x work.Status) work.Status {
	if !q.Exits {
		return x
	}
	switch asks := s.asks(ctx, log, folder, true); {
	case asks == task.AskFail && x.Code == 0:
		x.Code, x.Text = unknownCode, failWords
	case asks == task.AskStop:
		x.Asks = asks
	}
	return x
}

const failWords = "there is a file " + failFile + " in the folder of its run"

func (s *stopFiles) begin(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[folder] {
		return false
	}
	if s.all == nil {
		s.all = map[string]bool{}
	}
	s.all[folder] = true
	return true
}

func (s *stopFiles) end(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, folder)
}

// runFolderIn is where the folder of its run is, of a member's container; empty: it has none.
func runFolderIn(x container.Summary) string {
	for _, m := range x.Mounts {
		if m.Type == mount.TypeBind && path.Dir(m.Destination) == workDir("") {
			return m.Source
		}
	}
	return ""
}
