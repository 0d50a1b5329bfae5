package tasks

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
)

// JobFacts say what hosts run of a job, as its file has it: what its framework has a member run is what "explain job" shows.
func JobFacts(w *framework.World) (facts []Fact) {
	for _, g := range w.Groups {
		facts = append(facts, Fact{"GROUP", fmt.Sprintf("%s: %d, of which %s; %s", g.Name, g.Replicas, needed(g), whatRuns(g))})
	}
	j := w.Expanded()
	facts = append(facts, Fact{"NETWORK", j.Network})
	var files []string
	for _, f := range j.Source {
		files = append(files, f.Path)
	}
	return append(facts, steps("SOURCE", files)...)
}

// jobFactsOf reads the body of a job's task.
func jobFactsOf(body []byte) []Fact {
	j, err := jobfile.Decode(body)
	var w *framework.World
	if err == nil {
		w, err = framework.WorldOf(j)
	}
	if err != nil {
		return []Fact{{"BODY", "can't be carried out: " + err.Error()}}
	}
	return JobFacts(w)
}

// needed is how many members of a group have to succeed, in words.
func needed(g framework.Group) string {
	switch {
	case g.Serves():
		return "none has to succeed, as they serve the others"
	case g.Least == g.Replicas:
		return "all have to succeed"
	}
	return fmt.Sprintf("%d have to succeed", g.Least)
}

// whatRuns says what a member of a group runs.
func whatRuns(g framework.Group) string {
	what := "a process"
	if g.Image != "" {
		what = "image " + g.Image
	}
	if g.Serves() && len(g.Command) == 0 {
		what += ", its framework's own program"
	}
	if words := slices.Concat(g.Command, g.Args); len(words) > 0 {
		what += ", " + shellwords.Join(words)
	}
	return what
}
