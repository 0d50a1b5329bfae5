package shell

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	maxHistory     = 1000    // lines that are remembered
	maxHistoryFile = 1 << 20 // bytes of the file that are read; it is written anew when it has more, or twice as many lines
)

// history is what was typed before, the latest line last. It implements term.History. A file keeps it, which belongs to the user alone:
// a line may name what others are not to know. A line that begins with a blank is not kept.
type history struct {
	path  string // "": none
	lines []string
}

// openHistory reads what the file at path keeps. A file that can't be read or written is no reason not to work: there is no history then.
func openHistory(path string) *history {
	h := &history{path: path}
	if path == "" {
		return h
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return h
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return &history{}
	}
	begin := max(info.Size()-maxHistoryFile, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, begin, maxHistoryFile))
	if err != nil {
		return h
	}
	if begin > 0 { // in the middle of a line
		_, after, _ := strings.Cut(string(data), "\n")
		data = []byte(after)
	}
	kept := 0
	for line := range strings.Lines(string(data)) {
		kept++
		h.remember(text.Line(strings.TrimSuffix(line, "\n")))
	}
	if begin > 0 || kept > 2*maxHistory || info.Mode().Perm() != 0o600 {
		_ = atomicfile.ReplaceUnsynced(path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h
}

// remember takes a line in memory, and reports whether it is worth it.
func (h *history) remember(line string) bool {
	if line == "" || line[0] == ' ' || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return false
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > maxHistory {
		h.lines = slices.Delete(h.lines, 0, 1)
	}
	return true
}

// Add implements term.History.
func (h *history) Add(entry string) {
	if !h.remember(text.Line(entry)) || h.path == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, h.lines[len(h.lines)-1])
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History: 0 is the latest line.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
