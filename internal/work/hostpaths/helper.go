package hostpaths

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/text"
)

// Command has swarmd follow paths of the host that it finds at a mount point.
const Command = "host-paths"

const (
	hostDir     = "/host" // where the helper has the host's files
	notAt       = "--not-at="
	maxAnswer   = maxPaths*(2*maxEscaped*maxBytes+1024) + 1024
	maxEscaped  = 6 // bytes that one takes at most as it is encoded
	maxComplain = 4096
)

// answer is what a helper says, in one line.
type answer struct {
	Leads map[string]Lead `json:"leads,omitempty"`
	// Stuck is a place that does not answer. The helper goes on until it does, or nobody listens any more.
	Stuck string `json:"stuck,omitempty"`
	Err   string `json:"err,omitempty"` // why it can't be said now
}

// check holds an answer to what was asked.
func (a *answer) check(names []string) error {
	switch {
	case a.Err != "":
		return errors.New(text.Clip(text.Line(a.Err), maxBytes))
	case a.Stuck != "" && (malformed(a.Stuck) != "" || path.Clean(a.Stuck) != a.Stuck || a.Stuck == "/"):
		return fmt.Errorf("its image names no place that is stuck: %.200q", a.Stuck)
	case a.Stuck != "":
		return nil
	}
	for _, name := range names {
		at := a.Leads[name].At
		if malformed(at) != "" || path.Clean(at) != at {
			return fmt.Errorf("its image gave no answer for %.200q", name)
		}
	}
	return nil
}

// Run is Command: it prints where paths lead, and where it is stuck goes on until it is not, or stdin ends.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return hereBelow(hostDir).serve(ctx, args, stdin, stdout, stderr)
}

func (h *Here) serve(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	names := make([]string, 0, len(args))
	for _, arg := range args {
		if place, ok := strings.CutPrefix(arg, notAt); ok {
			h.looks.avoid(place)
			continue
		}
		names = append(names, arg)
	}
	leads, err := h.Resolve(ctx, names)
	said := answer{Leads: leads}
	stuck, isStuck := errors.AsType[*stuckError](err)
	switch {
	case isStuck:
		said.Stuck = stuck.at
	case err != nil:
		said.Err = text.Line(err.Error())
	}
	if err := json.NewEncoder(stdout).Encode(said); err != nil {
		fmt.Fprintln(stderr, text.Line(err.Error()))
		return 1
	}
	if !isStuck || stdin == nil {
		return 0
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(gone)
	}()
	select {
	case <-stuck.ended:
	case <-gone:
	}
	return 0
}

// helper is one that looks.
type helper struct {
	said   <-chan answer   // it has one
	ended  <-chan struct{} // closed when it has ended, or can't be heard any more
	remove func()          // ends it
}

// hear hears a helper by its output, which an engine has made one stream of.
func hear(output io.Reader, remove func()) *helper {
	said, ended := make(chan answer, 1), make(chan struct{})
	stdout, to := io.Pipe()
	var complaint complaint
	go func() {
		defer close(ended)
		_, err := stdcopy.StdCopy(to, &complaint, output)
		to.CloseWithError(err)
	}()
	go func() {
		var a answer
		d := json.NewDecoder(io.LimitReader(stdout, maxAnswer))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			_ = stdout.CloseWithError(err) // nothing else is heard of it
			<-ended
			a = answer{Err: cmp.Or(strings.TrimSpace(string(complaint)), "its image gave no answer, or that of another release: "+err.Error())}
		}
		said <- a
		_, _ = io.Copy(io.Discard, stdout)
	}()
	return &helper{said, ended, remove}
}

// complaint is the beginning of what was written to it.
type complaint []byte

func (c *complaint) Write(p []byte) (int, error) {
	*c = append(*c, p[:min(len(p), maxComplain-len(*c))]...)
	return len(p), nil
}
