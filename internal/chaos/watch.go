package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a node may hold in calm times, far above what one needs here.
const (
	mostFiles   = 400
	mostThreads = 200
	mostMemory  = 512 // MiB, without files
)

// usage is what a process holds.
type usage struct{ memory, files, threads int }

// usageOf reads /proc; false if the process is gone.
func usageOf(pid int) (usage, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, false
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return usage{}, false
	}
	kib, _ := strconv.Atoi(statusField(text, "RssAnon:"))
	threads, _ := strconv.Atoi(statusField(text, "Threads:"))
	return usage{kib >> 10, len(files), threads}, true
}

// watch is what nodes held over the run.
type watch struct {
	first, last, most map[string]usage
}

func newWatch() *watch {
	return &watch{map[string]usage{}, map[string]usage{}, map[string]usage{}}
}

// sample looks at the nodes in calm times and returns what is too much.
func (w *watch) sample(nodes []*node) (wrong []string) {
	for _, n := range nodes {
		pid, _ := n.pids()
		u, ok := usageOf(pid)
		if !ok {
			continue
		}
		if _, seen := w.first[n.name]; !seen {
			w.first[n.name] = u
		}
		w.last[n.name] = u
		m := w.most[n.name]
		w.most[n.name] = usage{max(m.memory, u.memory), max(m.files, u.files), max(m.threads, u.threads)}
		if u.files > mostFiles || u.threads > mostThreads || u.memory > mostMemory {
			wrong = append(wrong, fmt.Sprintf("%s holds %d MiB, %d files and %d threads", n.name, u.memory, u.files, u.threads))
		}
	}
	return append(wrong, lastingZombies()...)
}

// grace is how long a process that has ended may wait until its parent asks about it: on a busy machine it is not at once.
const grace = 2 * time.Second

// lastingZombies are zombies that stay.
func lastingZombies() []string {
	looks := time.NewTicker(grace / 20)
	defer looks.Stop()
	stay := zombies()
	for until := time.Now().Add(grace); len(stay) > 0 && time.Now().Before(until); {
		<-looks.C
		now := zombies()
		stay = slices.DeleteFunc(stay, func(z string) bool { return !slices.Contains(now, z) })
	}
	return stay
}

// zombies are processes that ended and that their parents, this process's children or itself, have not asked about.
func zombies() (found []string) {
	status, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range status {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(statusField(text, "State:"), "Z") {
			continue
		}
		parent, _ := strconv.Atoi(statusField(text, "PPid:"))
		if parent != os.Getpid() && parentOf(parent) != os.Getpid() {
			continue
		}
		found = append(found, fmt.Sprintf("process %s (%s) has ended and its parent %d does not know", filepath.Base(filepath.Dir(path)), statusField(text, "Name:"), parent))
	}
	return found
}

// leftovers are what a swarm that has ended left in its bridges' folder.
func leftovers(shm string) (found []string) {
	_ = filepath.WalkDir(shm, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	slices.Sort(found)
	return found
}

// strays are processes whose command line has one of the texts; its arguments are divided by zero bytes.
func strays(texts ...string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(string(line), text) }) {
			found = append(found, "process "+filepath.Base(filepath.Dir(path))+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
