package swci

import (
	"fmt"
	"io"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// taskProgress shows that a taskrunner is waited for: a bar on a terminal, a # now and then elsewhere.
type taskProgress struct {
	s     *Session
	out   io.Writer // of an answer's line at the prompt, else beside the answer
	bar   bool
	width func() int // of the terminal, in columns, as far as the bar may take them
	began time.Time
	marks int
	drawn bool
}

// markEvery is the time between two marks.
const markEvery = 10 * time.Second

func newTaskProgress(s *Session) *taskProgress {
	p := &taskProgress{s: s, out: s.Env.Stderr, bar: s.Env.IsTerminal(s.Env.Stderr), width: s.width, began: time.Now()}
	if s.prompt != nil {
		p.out, p.bar = s.Env.Stdout, s.prompt.shell.Columns() > 0
		p.width = func() int { return s.prompt.shell.Columns() - len("    ") }
	}
	return p
}

// begin says for how long is waited, as the original does.
func (p *taskProgress) begin(limit time.Duration) {
	if p.s.inWords() && !p.s.JSON {
		fmt.Fprintf(p.s.Env.Stdout, "WAITING FOR TASKRUNNER TO COMPLETE - Maximum wait time is : %d mins\n", int(limit.Minutes()))
	}
}

// begun empties the line, and leads to where an answer begins in it.
func (p *taskProgress) begun() string {
	if p.s.prompt != nil {
		return "\r\x1b[K    "
	}
	return "\r\x1b[K"
}

// seen shows an assignment that is under way.
func (p *taskProgress) seen(a *swarmv1.Assignment) {
	switch {
	case p.s.JSON:
	case p.bar:
		if !p.drawn && p.s.prompt != nil {
			fmt.Fprint(p.out, " ") // the prompt's writer indents what begins a line
		}
		p.drawn = true
		room := max(p.width()-1, 0)
		line := []rune(text.Line(tasks.Bar(a, time.Since(p.began), room)))
		fmt.Fprint(p.out, p.begun()+string(line[:min(len(line), room)])) // one that a terminal breaks could not be drawn over
	case time.Since(p.began) >= time.Duration(p.marks+1)*markEvery:
		p.marks++
		fmt.Fprint(p.out, "#")
	}
}

// end takes the bar away, or ends the line of marks.
func (p *taskProgress) end() {
	switch {
	case p.drawn:
		fmt.Fprint(p.out, p.begun())
	case p.marks > 0:
		fmt.Fprintln(p.out)
	}
}
