package jobs

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/text"
)

// Print writes what a job would be: what was changed, the whole file, the members, and what they wait for. Of members of one group that differ in
// their variables alone the variables stand once.
func (e *Explained) Print(w io.Writer) {
	p := &printer{w: w}
	p.line("job %s: %d members, %d bytes in its task", e.Name, len(e.Members), e.Bytes)
	for _, c := range e.Changes {
		p.line("changed: %s", c.words())
	}
	if e.Imported.From != "" {
		p.head("Read from " + e.Imported.From)
		for _, l := range e.Imported.Lines() {
			p.line("%s", l)
		}
	}
	p.head("Expanded")
	for l := range strings.Lines(e.Expanded) {
		p.line("%s", strings.TrimSuffix(l, "\n"))
	}
	if len(e.Source) > 0 {
		p.head("Source")
		for _, f := range e.Source {
			p.line("%s: %d bytes", f.Path, f.Bytes)
		}
	}
	p.head("Groups")
	for _, g := range e.Groups {
		p.line("%s: %s", g.Name, g.words())
	}
	p.line("done: %s", doneWords(e.DoneWhen))
	p.head("Signed when it is started")
	for _, l := range e.signed() {
		p.line("%s", l)
	}
	p.head("Members (hosts and addresses are examples: no swarm was asked)")
	for i := range e.Members {
		p.member(&e.Members[i], i > 0 && e.Members[i-1].Group == e.Members[i].Group)
	}
	p.head("Waits for")
	for _, n := range e.WaitsFor {
		p.line("%s", n)
	}
}

// printer writes lines that are safe to show.
type printer struct{ w io.Writer }

func (p *printer) line(format string, args ...any) {
	fmt.Fprintln(p.w, text.Line(fmt.Sprintf(format, args...)))
}

func (p *printer) head(s string) { fmt.Fprintf(p.w, "\n%s\n", s) }

func (g Group) words() string {
	members := fmt.Sprintf("%d members", g.Replicas)
	if g.Replicas == 1 {
		members = "1 member"
	}
	switch {
	case g.Least == 0:
		return members + ", serving the others: an exit before the end is a failure"
	case g.Least < g.Replicas:
		return fmt.Sprintf("%s, of which %d have to succeed", members, g.Least)
	case g.Replicas == 1:
		return members + ", which has to succeed"
	}
	return members + ", which all have to succeed"
}

// signed are the lines of what the swarm decides by.
func (e *Explained) signed() []string {
	var groups []string
	for _, g := range e.Groups {
		groups = append(groups, fmt.Sprintf("%s %d/%d", g.Name, g.Least, g.Replicas))
	}
	if e.Signed.Refused != "" {
		return []string{"nothing, as hosts would not carry it out: " + e.Signed.Refused}
	}
	hosts, order := "those that take jobs then", "together"
	if len(e.Signed.Hosts) > 0 {
		hosts = strings.Join(e.Signed.Hosts, ", ")
	}
	if e.Signed.InOrder {
		order = "each when the one before is ready"
	}
	if e.Signed.Together {
		hosts += ", all members on one of them"
	}
	lines := []string{
		"groups, each with how many have to succeed of how many: " + strings.Join(groups, ", "),
		"groups start: " + order,
		"hosts: " + hosts,
		fmt.Sprintf("restarts: %d", e.Signed.Retries),
		"all ready after being placed within: " + milliseconds(e.Signed.ReadyMS),
		"ends at the latest after: " + milliseconds(e.Signed.TimeoutMS),
	}
	if e.Signed.LivesMS > 0 {
		lines = append(lines, "ends with success after all were ready for: "+milliseconds(e.Signed.LivesMS))
	}
	switch {
	case e.Signed.Stops && strings.Contains(e.Expanded, "\ncompat: oci\n"):
		lines = append(lines,
			"ends, judged by how its members end within grace, when there is: a file named stop in the folder of the run",
			"fails when there is: a file named stop_fail there")
	case e.Signed.Stops:
		lines = append(lines, "ends with success when there is: a file named stop in the folder of the run")
	}
	return lines
}

func milliseconds(ms int64) string { return jobfile.Duration(time.Duration(ms) * time.Millisecond) }

func doneWords(when string) string {
	switch when {
	case "main":
		return "when the first group that ends has"
	case "any":
		return "when one of the groups that end has"
	}
	return "when all groups that end have"
}

// member writes what a member runs. A further one of its group shows only what is of its own.
func (p *printer) member(m *Member, further bool) {
	p.line("rank %d, %s on %s: %s", m.Rank, m.Group, m.Host, m.runs())
	if further {
		var own []string
		for _, v := range m.Env {
			if v.Name == "SWARM_NODE_IP" || v.Name == "SWARM_NODE_RANK" {
				own = append(own, v.Name+"="+v.Value)
			}
		}
		p.line("    %s, and so on", strings.Join(own, ", "))
		return
	}
	p.line("    ready %s", m.Ready)
	for _, v := range m.Env {
		p.line("    %s=%s", v.Name, strings.ReplaceAll(v.Value, "\n", " "))
	}
}

// commandLine is a command as it is typed. Of a text of several lines, as Python runs them, the first is enough.
func commandLine(words []string) string {
	words = slices.Clone(words)
	for i, w := range words {
		if first, _, more := strings.Cut(w, "\n"); more {
			words[i] = first + " …"
		}
	}
	return shellwords.Join(words)
}

func (m *Member) runs() string {
	switch {
	case len(m.Command) > 0:
		return commandLine(m.Command)
	case len(m.Args) > 0:
		return "its image's command with " + shellwords.Join(m.Args)
	}
	return "its image's command"
}
