package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/space"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	quoteLines   = 20 // last lines that are quoted of a program whose output was not shown
	messageLines = 6  // of an exception's message
)

// failure is why programs failed. Peers that failed alike share one.
type failure struct {
	peers []string
	text  string // what stands behind the peers' names: how they ended, and why
	hint  string
}

// frameLine matches what Python's traceback says of a place in the program.
var frameLine = regexp.MustCompile(`^\s+File "([^"]+)", line ([0-9]+)(?:, in (\S+))?`)

// foreign matches the paths of code that is not the user's.
var foreign = regexp.MustCompile(`/(swarmlearning(-[0-9a-f]+)?|site-packages|dist-packages|lib/python[0-9.]+)/|^<`)

// traceback is what is worth telling of Python's last traceback.
type traceback struct {
	message string // the exception, with its type
	where   string // the last place in the user's own code: "train.py, line 7: loss.backward()"; empty if there is none
}

// findTraceback looks for the last traceback in what a program printed last.
func findTraceback(lines []string) (traceback, bool) {
	start := -1
	for i, l := range lines {
		if strings.HasPrefix(l, "Traceback (most recent call last):") {
			start = i
		}
	}
	if start < 0 {
		return traceback{}, false
	}
	var t traceback
	for i := start + 1; i < len(lines); i++ {
		l := lines[i]
		if at := frameLine.FindStringSubmatch(l); at != nil {
			if !foreign.MatchString(at[1]) {
				t.where = fmt.Sprintf("%s, line %s", filepath.Base(at[1]), at[2])
				if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
					t.where += ": " + strings.TrimSpace(lines[i+1])
				}
			}
			continue
		}
		if l != "" && !strings.HasPrefix(l, " ") {
			t.message = exception(lines[i:])
			return t, true
		}
	}
	return traceback{}, false
}

// exception is an exception's type, without the package that it is from, and its message.
func exception(lines []string) string {
	kind, message, found := strings.Cut(lines[0], ":")
	if at := strings.LastIndexByte(kind, '.'); at >= 0 && !strings.ContainsAny(kind, " \t") {
		kind = kind[at+1:]
	}
	text := kind
	if found {
		text += ":" + message
	}
	for _, l := range lines[1:min(len(lines), messageLines)] {
		if stamped.MatchString(l) || strings.TrimSpace(l) == "" {
			break
		}
		text += "\n    " + l
	}
	return text
}

// stamped matches a line of a log: the exception's message has ended.
var stamped = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}`)

// goneHints match advice to ask the swarm, or to go on in it, which is gone by the time that the run's end is read.
var goneHints = []*regexp.Regexp{
	regexp.MustCompile("[;,:]? *\\(?(?:or |to )?(?:see|begin anew|train anew|it says more|end them)?:? *`?swarmctl (?:get contract status|explain contract|reset contract)(?: [^\\s`)]+)?(?: force)?`?\\)?"),
}

// withoutGone takes advice out of a message that needs a swarm.
func withoutGone(s string) string {
	for _, r := range goneHints {
		s = r.ReplaceAllString(s, "")
	}
	return strings.TrimRight(s, " ")
}

// slFailure tells why the SL of the peer with index i failed.
func (r *run) slFailure(i int, e cluster.Exit) failure {
	r.mu.Lock()
	reason := r.reasons[e.Name]
	r.mu.Unlock()
	// That the program ended with an exit code is no reason: it stands there already.
	if reason = strings.TrimSuffix(reason, "; last lines:"); !strings.Contains(reason, ": exit code ") {
		e.Reason = reason
	}
	return r.programFailure(e, r.outputs[i].last())
}

// programFailure tells how a program ended and why, as far as it said so: its exception and where in the user's code that was raised,
// or its last line. Its output has been shown; only with --quiet are its last lines quoted.
func (r *run) programFailure(e cluster.Exit, last []string) failure {
	f := failure{peers: []string{e.Name}, hint: "all that it printed is in " + filepath.Join(r.cfg.Out, "sl-*", programLog) + ", the daemons' logs are in " + filepath.Join(r.cfg.Out, logsDir)}
	f.text = withoutGone(strings.TrimPrefix(e.String(), e.Name))
	t, found := findTraceback(last)
	switch {
	case found:
		f.text = fmt.Sprintf("%s: %s", strings.TrimPrefix(cluster.Exit{Name: e.Name, Code: e.Code, Signal: e.Signal}.String(), e.Name), withoutGone(t.message))
		if t.where != "" {
			f.text += "\n    at " + t.where
		}
	case e.Reason != "":
	case len(last) == 0:
		f.text += " and said nothing"
	case r.cfg.Quiet:
		f.text += ", last lines:\n    " + strings.Join(last[max(0, len(last)-quoteLines):], "\n    ")
	default:
		f.text += ", its last line: " + withoutGone(lastLine(last))
	}
	for _, line := range last {
		if more := r.remedy(line); more != "" {
			f.hint = more
		}
	}
	if free, err := space.Free(r.cfg.Out); err == nil {
		f.hint = roomHint(free, r.cfg.Out, f.hint)
	}
	return f
}

// leastRoom in bytes is what even a small model and its report need.
const leastRoom = 1 << 20

// roomHint is the hint, unless the disk of out is full, of which a program's own error may say nothing. Below 0 free has no bound.
func roomHint(free int64, out, hint string) string {
	if free < 0 || free >= leastRoom {
		return hint
	}
	return fmt.Sprintf("the disk of %s is full (%d bytes are left): make room, or give another --out", out, free)
}

// lastLine is the last one that says something.
func lastLine(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if strings.TrimSpace(l) != "" {
			return l
		}
	}
	return ""
}

// failedAlone notes that a baseline's program failed, and returns the error for that.
func (r *run) failedAlone(e cluster.Exit, last []string) error {
	r.add(r.programFailure(e, last))
	return errAlone
}

// errAlone says that a baseline's program failed; the run's failures say why.
var errAlone = errors.New("a program failed alone")

// add takes a failure, to an earlier one that says the same.
func (r *run) add(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.failures {
		if r.failures[i].text == f.text {
			r.failures[i].peers = append(r.failures[i].peers, f.peers...)
			slices.Sort(r.failures[i].peers)
			return
		}
	}
	r.failures = append(r.failures, f)
}

// failure is the error for all programs that failed, nil if none did.
func (r *run) failure() error {
	if len(r.failures) == 0 {
		return nil
	}
	var text []string
	for _, f := range r.failures {
		text = append(text, together(f.peers)+f.text)
	}
	return exit.New(exit.Failed, r.failures[0].hint, "%s", strings.Join(text, "\n"))
}

// together lists peers in a sentence.
func together(peers []string) string {
	if n := len(peers) - 1; n > 0 {
		return strings.Join(peers[:n], ", ") + " and " + peers[n]
	}
	return peers[0]
}
