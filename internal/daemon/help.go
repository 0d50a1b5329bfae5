package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
)

const (
	helpColumn = 30  // where an option's explanation begins
	helpWidth  = 118 // where its lines are broken
)

// Groups of options in a command's help, beside the flags' own categories.
const (
	groupNeeded   = "Required:"
	groupOptions  = "Options:"
	groupIdentity = "The node's identity, where no SPIRE agent of its own gives it:"
)

// identityOptions say who the node is and whom it believes.
var identityOptions = []string{"identity", "socket-path", "trust-domain", "spiffe-prefix", "swarm-id", "cert", "key", "cacert", "capath", "cert-roles"}

// help is a command's help: what is required comes first and what changes nothing last, in one line.
func help(c *cli.Command) string {
	groups := map[string][]cli.DocGenerationFlag{}
	variable := "" // an option that is a variable under the usual name
	for _, f := range c.Flags {
		d, ok := f.(cli.DocGenerationFlag)
		if v, is := f.(cli.VisibleFlag); !ok || is && !v.IsVisible() {
			continue
		}
		g := group(c, d)
		groups[g] = append(groups[g], d)
		if variable == "" && slices.Equal(d.GetEnvVars(), env(d.Names()[0])) {
			variable = d.Names()[0]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nusage: %s", c.HelpName, c.Usage, c.HelpName)
	for _, d := range groups[groupNeeded] {
		if strings.HasSuffix(d.GetUsage(), "(required)") {
			b.WriteString(strings.TrimRight(fmt.Sprintf(" --%s %s", d.Names()[0], placeholder(d)), " "))
		}
	}
	if c.ArgsUsage != "" {
		b.WriteString(" " + c.ArgsUsage)
	}
	b.WriteString(" [OPTION...]\n")
	if c.Description != "" {
		b.WriteString("\n" + wrap(c.Description, 0) + "\n")
	}
	for _, g := range []string{groupNeeded, groupOptions, groupIdentity, forRanks, forAgent, forML, forContainer} {
		if len(groups[g]) == 0 {
			continue
		}
		b.WriteString("\n" + g + "\n")
		for _, d := range groups[g] {
			b.WriteString(helpLine(d, g != forContainer))
		}
	}
	if none := inert(c); len(none) > 0 {
		b.WriteString("\n" + wrap("Accepted from HPE Swarm Learning's scripts, without effect: "+strings.Join(none, ", "), 0) + "\n")
	}
	if variable != "" {
		text := fmt.Sprintf("An option with a value can also be given as a variable: --%s is $%s.", variable, env(variable)[0])
		if len(groups[forContainer]) > 0 {
			text += " Options of the component's container can't, unless one is shown."
		}
		b.WriteString("\n" + wrap(text, 0) + "\n")
	}
	return b.String()
}

// inert lists the options that change nothing.
func inert(c *cli.Command) (names []string) {
	table := flagTable(c)
	if _, starts := table["hostname"]; !starts {
		return nil
	}
	for _, n := range cmdline.Inert(cmdline.Originals(undoctored(c.Name), table)) {
		names = append(names, "--"+n)
	}
	return names
}

func group(c *cli.Command, d cli.DocGenerationFlag) string {
	if strings.Contains(d.GetUsage(), "(required") {
		return groupNeeded
	}
	if c, ok := d.(cli.CategorizableFlag); ok && c.GetCategory() != "" {
		return c.GetCategory()
	}
	if strings.HasPrefix(c.Description, agentHelp) && slices.Contains(identityOptions, d.Names()[0]) {
		return groupIdentity
	}
	return groupOptions
}

// placeholder stands for an option's value.
func placeholder(d cli.DocGenerationFlag) string {
	if _, rest, ok := strings.Cut(d.GetUsage(), "`"); ok {
		if name, _, ok := strings.Cut(rest, "`"); ok && name == strings.ToUpper(name) {
			return name
		}
	}
	switch d.(type) {
	case *cli.IntFlag, *cli.Int64Flag:
		return "N"
	case *cli.DurationFlag:
		return "TIME"
	case *cli.BoolFlag:
		return ""
	}
	return "VALUE"
}

// helpLine is one option: its names, then in a column what it means, its default, and its variables unless usual ones are
// taken for granted.
func helpLine(d cli.DocGenerationFlag, usual bool) string {
	var names []string
	for _, n := range d.Names() {
		names = append(names, cmdline.Dashed(n))
	}
	value := placeholder(d)
	left := strings.TrimRight("  "+strings.Join(names, ", ")+" "+value, " ")
	usage := strings.TrimSuffix(strings.ReplaceAll(d.GetUsage(), "`"+value+"`", value), " (required)")
	if value := d.GetDefaultText(); !strings.Contains(usage, "default") && !slices.Contains([]string{"", "false", "0", "0s"}, value) {
		usage += " (default " + cmdline.ShortTime(value) + ")"
	}
	if vars := d.GetEnvVars(); len(vars) > 0 && !(usual && slices.Equal(vars, env(d.Names()[0]))) {
		usage += " [$" + strings.Join(vars, ", $") + "]"
	}
	if gap := helpColumn - utf8.RuneCountInString(left); gap > 1 {
		return left + strings.Repeat(" ", gap) + wrap(usage, helpColumn) + "\n"
	}
	return left + "\n" + strings.Repeat(" ", helpColumn) + wrap(usage, helpColumn) + "\n"
}

// wantedValue makes of package flag's complaint one that says what the option takes.
func wantedValue(app *cli.App, err error) error {
	if err == nil {
		return nil
	}
	var flags []cli.Flag
	for _, c := range app.Commands {
		flags = append(flags, c.Flags...)
	}
	bad, ok := cmdline.Bad(err, flags...)
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %s: want %s", bad.Option, bad.Value, cmp.Or(bad.Want, "another value"))
}

// wrap breaks text at blanks; all lines but the first are indented.
func wrap(text string, indent int) string { return cmdline.Wrap(text, helpWidth, indent) }
