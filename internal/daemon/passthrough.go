package daemon

import "github.com/urfave/cli/v2"

// passed returns the standard options of a SPIRE program that the user gave, as the program takes them. They are options
// of our command, so that a mistyped one is noticed before anything starts.
func passed(c *cli.Context, flags []cli.Flag) []string {
	var args []string
	for _, f := range flags {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		if _, boolean := f.(*cli.BoolFlag); boolean {
			if c.Bool(name) {
				args = append(args, "-"+name)
			}
			continue
		}
		args = append(args, "-"+name+"="+c.String(name))
	}
	return args
}
