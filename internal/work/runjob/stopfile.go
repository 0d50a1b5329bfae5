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
)

// stopFile ends a run when it is in its folder, whatever it has: whoever can write there can make it.
const stopFile = "stop"

// stopLook is how long a host waits for a folder of a network to say whether it is there.
const stopLook = 500 * time.Millisecond

// stopFiles looks for those of runs, each time that their members are looked at. The zero value has none.
type stopFiles struct {
	mu  sync.Mutex
	all map[string]bool // folders at which one look goes on
}

// asks is what a member's host asks of its job: its end, if there is a stop file in the folder of its run. One that does not answer in time says
// nothing, and is not looked at again before it does.
func (s *stopFiles) asks(ctx context.Context, log *slog.Logger, folder string) string {
	if folder == "" || !s.begin(folder) {
		return ""
	}
	found := make(chan bool, 1)
	go func() { // it outlives the call if the folder does not answer
		_, err := os.Lstat(filepath.Join(folder, stopFile))
		s.end(folder)
		found <- err == nil
	}()
	late := time.NewTimer(stopLook)
	defer late.Stop()
	select {
	case there := <-found:
		if there {
			return task.AskStop
		}
	case <-ctx.Done():
	case <-late.C:
		log.WarnContext(ctx, "the folder of a run does not answer: nobody sees a stop file there", "folder", folder)
	}
	return ""
}

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
