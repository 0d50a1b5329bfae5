package swci

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
)

// WriteReference writes docs/reference/cli.md.
func (g *Grammar) WriteReference(w io.Writer) {
	fmt.Fprint(w, `# swarmctl

<!-- Generated from the command table in internal/swci; go test ./internal/swci -update writes it. -->

`+"`swarmctl COMMAND [OPTIONS]`"+`. Words in capitals are yours to fill in, words in brackets may be left out. Keywords are
taken in any case, names as typed. Options may stand before, between and after the words, as `+"`--option value`"+` or
`+"`--option=value`"+`; `+"`--`"+` ends them. Data goes to standard output, everything else to standard error.

Without a command, on a terminal, `+"`swarmctl`"+` is the [SWCI shell](swci.md). `+"`swarmctl -f FILE`"+` runs a script, one command a line, as does
`+"`swarmctl`"+` with a pipe as standard input.

`)
	group := ""
	for _, c := range g.commands {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(w, "## %s\n\n", group)
		}
		fmt.Fprintf(w, "### `%s`\n\n%s.\n\n%s\n\n", c.Pattern, c.Summary, cmdline.Wrap(c.Details, 120, 0))
		referenceFlags(w, c.Flags)
		fmt.Fprintf(w, "    swarmctl %s\n\n", c.Example)
		referenceJSON(w, c.JSON)
	}
	fmt.Fprint(w, "## Options of every command\n\n")
	referenceFlags(w, g.global)
	fmt.Fprint(w, cmdline.Wrap(severalSNs, 120, 0)+"\n\n")
	fmt.Fprint(w, cmdline.Wrap(agentHelp, 120, 0)+"\n\n")
	fmt.Fprint(w, exitCodes)
}

func referenceFlags(w io.Writer, flags []cli.Flag) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprint(w, "| option | meaning |\n|---|---|\n")
	for _, f := range visible(flags) {
		name, usage := flagText(f)
		fmt.Fprintf(w, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", "\\|"), strings.ReplaceAll(usage, "|", "\\|"))
	}
	fmt.Fprintln(w)
}

// severalSNs says what becomes of SNs that differ.
const severalSNs = "Several --sn are asked first which swarm they are of, all at once. If they differ, as when an SN lost its disk and founded a swarm " +
	"of its own, a line on standard error names which SN is of which swarm, and the command goes on with the swarm that more than half of " +
	"those that answer are of; without such a majority nothing is done, and the exit code is 6. A context that has its swarm's ID needs no vote: " +
	"SNs of another swarm are left aside."

const exitCodes = `## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | the command line is wrong |
| 3 | no daemon answers |
| 4 | denied |
| 5 | not found |
| 6 | conflict with what exists |
| 7 | no raft leader or no quorum |
| 8 | timed out |
| 9 | done, but with warnings: see the command |
| 130 | interrupted |

## Environment

| variable | meaning |
|---|---|
| ` + "`SWARM_CONTEXT`" + ` | context to use when ` + "`--context`" + ` is not given |
| ` + "`SWARM_IDENTITY`" + ` | as ` + "`--identity`" + `, when neither that nor the context says it |
| ` + "`SPIFFE_ENDPOINT_SOCKET`" + ` | Workload API socket, when nothing else names an identity |
| ` + "`SWARM_PYTHON`" + ` | Python interpreter of ` + "`local run`" + ` when ` + "`--python`" + ` is not given |
| ` + "`XDG_STATE_HOME`" + ` | contexts are kept in ` + "`$XDG_STATE_HOME/swarmd/contexts`" + ` (default ` + "`~/.local/state`" + `) |
`
