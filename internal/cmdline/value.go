package cmdline

import (
	"regexp"
	"slices"

	"github.com/urfave/cli/v2"
)

// badValue is how package flag complains about a value.
var badValue = regexp.MustCompile(`^invalid value (".*") for flag -(\S+): `)

// BadValue is a value that an option does not take.
type BadValue struct {
	Option string // its name
	Value  string // quoted
	Want   string // what it takes, such as "a number"; empty if that is unknown
}

// Bad returns which value an error of urfave/cli complains of, if it is one of these options'.
func Bad(err error, flags ...cli.Flag) (bad BadValue, ok bool) {
	m := badValue.FindStringSubmatch(err.Error())
	if m == nil {
		return bad, false
	}
	bad = BadValue{Option: m[2], Value: m[1]}
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), bad.Option) })
	if i >= 0 {
		bad.Want = wants(flags[i])
	}
	return bad, true
}

func wants(f cli.Flag) string {
	switch f.(type) {
	case *cli.DurationFlag:
		return "a time such as 90s or 5m"
	case *cli.Float64Flag:
		return "a number such as 0.4"
	case *cli.IntFlag, *cli.Int64Flag, *cli.Uint64Flag:
		return "a whole number"
	case *cli.BoolFlag:
		return "true or false"
	}
	return ""
}
