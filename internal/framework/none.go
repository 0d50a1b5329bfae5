package framework

import "github.com/swarmd/swarmd/internal/jobfile"

// none is for programs that find each other by the variables that every member has.
func none() kind {
	return kind{
		start: jobfile.Parallel, doneWhen: jobfile.All,
		groups:  func(j *jobfile.Job) ([]Group, error) { return declared(j, "node"), nil },
		vars:    func(*World, Placement, Member) []jobfile.Var { return nil },
		command: ownCommand,
		ready:   whenItRuns,
	}
}

// ownCommand leaves a group its command.
func ownCommand(*World, Placement, Member) []string { return nil }

// whenItRuns is the readiness of what nobody asks.
func whenItRuns(*World, Placement, Member) Ready { return Ready{} }
