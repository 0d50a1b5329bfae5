package runner

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// logPositionName is the file in the state directory that says up to where a program's output was taken.
const logPositionName = "program.logged"

// logPosition keeps up to where the output of a program in a container was taken, so that the next daemon goes on behind it. The time is the
// container runtime's, which may count entries in its nanoseconds: no file's own time will do.
type logPosition struct {
	path string
	log  *slog.Logger
	said bool // that it can't be kept
}

// write keeps the time. It is lost if the machine crashes: its containers are gone then, too.
func (t *logPosition) write(incarnation string, to time.Time) {
	err := atomicfile.ReplaceUnsynced(t.path, []byte(incarnation+" "+strconv.FormatInt(to.UnixNano(), 10)+"\n"), 0o600)
	if err != nil && !t.said {
		t.log.Warn("could not keep up to where the program's output was taken; if this node crashes, its next start repeats output", "err", err)
	}
	t.said = err != nil
}

// read returns the time that was kept of the incarnation of the program, zero if there is none.
func (t *logPosition) read(incarnation string) time.Time {
	b, err := os.ReadFile(t.path)
	if err != nil {
		return time.Time{}
	}
	of, text, _ := strings.Cut(strings.TrimSuffix(string(b), "\n"), " ")
	nanos, err := strconv.ParseInt(text, 10, 64)
	if of != incarnation || err != nil {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
