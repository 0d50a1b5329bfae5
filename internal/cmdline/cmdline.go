// Package cmdline takes command lines apart for swarmd and swarmctl, in front of urfave/cli: options stand anywhere, with one dash or
// two, under any of their names, and letters may stand together.
package cmdline

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/suggest"
)

// Table has the options that a command line may have, by each of their names.
type Table map[string]Known

// Known is what is to be known of an option before a command line is taken apart.
type Known struct {
	Name string   // the first of its names: urfave/cli takes only one of them at a time
	Bool bool     // takes no value
	May  []string // of a Bool: words that are its value all the same if they follow it
}

// NewTable makes a table of options.
func NewTable(flags ...cli.Flag) Table {
	t := Table{}
	for _, f := range flags {
		_, boolean := f.(*cli.BoolFlag)
		for _, n := range f.Names() {
			t[n] = Known{Name: f.Names()[0], Bool: boolean}
		}
	}
	return t
}

// Suggest returns the name of the option that was probably meant, "" if none is near. Single letters are near to anything, and are not
// suggested.
func (t Table) Suggest(name string) string {
	long := slices.DeleteFunc(slices.Collect(maps.Keys(t)), func(n string) bool { return len(n) == 1 })
	return suggest.Word(strings.TrimLeft(name, "-"), long)
}

// Option is one option as typed.
type Option struct {
	Typed string // its name, with the dashes
	Name  string // without them
	Value string
	Given bool // a value stands with it
	Apart bool // as the next word
}

// Forgotten reports whether the value looks like the next option. A lone dash stands for standard input or output.
func (o Option) Forgotten() bool { return o.Apart && strings.HasPrefix(o.Value, "-") && o.Value != "-" }

// As is the option under another name, in the form that urfave/cli takes.
func (o Option) As(name string) string {
	if o.Given {
		return "--" + name + "=" + o.Value
	}
	return "--" + name
}

// Line is a command line taken apart.
type Line struct {
	Words   []string
	Options []Option
}

// number matches what looks like an option and is none, if no option is called so.
var number = regexp.MustCompile(`^-\.?[0-9]`)

// Split takes args apart. Options that the table lacks have no value but one behind an equals sign; one that takes a value and
// has none is not Given. Numbers below 0 are words, and so is what follows --.
func (t Table) Split(args []string) Line {
	var l Line
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			l.Words = append(l.Words, args[i+1:]...)
			break
		}
		typed, value, given := strings.Cut(arg, "=")
		o := Option{Typed: typed, Name: strings.TrimLeft(typed, "-"), Value: value, Given: given}
		if o.Name == "" || o.Name == typed {
			l.Words = append(l.Words, arg)
			continue
		}
		known, ok := t[o.Name]
		if !ok && number.MatchString(arg) {
			l.Words = append(l.Words, arg)
			continue
		}
		if letters := t.letters(arg); !ok && letters != nil {
			l.Options = append(l.Options, letters...)
			continue
		}
		if ok && !given && i+1 < len(args) && (!known.Bool || slices.Contains(known.May, args[i+1])) {
			i++
			o.Value, o.Given, o.Apart = args[i], true, true
		}
		l.Options = append(l.Options, o)
	}
	return l
}

// letters takes options of one letter without a value that stand together, such as -it, apart; nil if arg is something else.
func (t Table) letters(arg string) []Option {
	letters, one := strings.CutPrefix(arg, "-")
	if !one || len(letters) < 2 {
		return nil
	}
	var out []Option
	for _, l := range letters {
		o := t[string(l)]
		if !o.Bool || o.Name == "help" {
			return nil
		}
		out = append(out, Option{Typed: "-" + string(l), Name: string(l)})
	}
	return out
}

// Has reports whether one of these names was typed.
func (l Line) Has(names ...string) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool { return slices.Contains(names, o.Name) })
}

// Dashed is an option's name as it is typed.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Variable is the environment variable that stands for an option.
func Variable(name string) string {
	return "SWARM_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
