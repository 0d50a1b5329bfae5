package cmdline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
)

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "host-ip"},
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}},
		&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}},
		&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}},
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}},
		&cli.DurationFlag{Name: "grace"},
		&cli.IntFlag{Name: "peers"},
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	type option = cmdline.Option
	for args, want := range map[string]cmdline.Line{
		"a --host-ip 10.0.0.1 b": {Words: []string{"a", "b"}, Options: []option{{"--host-ip", "host-ip", "10.0.0.1", true, true}}},
		"-host-ip=x=y":           {Options: []option{{"-host-ip", "host-ip", "x=y", true, false}}},
		"--host-ip":              {Options: []option{{"--host-ip", "host-ip", "", false, false}}},
		"--host-ip -i":           {Options: []option{{"--host-ip", "host-ip", "-i", true, true}}},
		"-it a":                  {Words: []string{"a"}, Options: []option{{"-i", "i", "", false, false}, {"-t", "t", "", false, false}}},
		"-ite a":                 {Words: []string{"a"}, Options: []option{{"-ite", "ite", "", false, false}}},
		"-ih":                    {Options: []option{{"-ih", "ih", "", false, false}}},
		"--what a":               {Words: []string{"a"}, Options: []option{{"--what", "what", "", false, false}}},
		"-5 -.5 -5x -x5":         {Words: []string{"-5", "-.5", "-5x"}, Options: []option{{"-x5", "x5", "", false, false}}},
		"- -i -- -t --":          {Words: []string{"-", "-t", "--"}, Options: []option{{"-i", "i", "", false, false}}},
	} {
		if diff := cmp.Diff(want, cmdline.NewTable(flags()...).Split(strings.Fields(args))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestOption(t *testing.T) {
	t.Parallel()
	l := cmdline.NewTable(flags()...).Split(strings.Fields("-e -x --host-ip=-a -i"))
	if o := cmdline.NewTable(flags()...).Split([]string{"--host-ip", "-"}).Options[0]; o.Forgotten() || o.Value != "-" {
		t.Errorf("%+v is no value", o)
	}
	for i, want := range []struct {
		forgotten bool
		as        string
	}{{true, "--first=-x"}, {false, "--first=-a"}, {false, "--first"}} {
		if o := l.Options[i]; o.Forgotten() != want.forgotten || o.As("first") != want.as {
			t.Errorf("%+v: forgotten %v, as %s; want %+v", o, o.Forgotten(), o.As("first"), want)
		}
	}
	if !l.Has("env", "e") || l.Has("env") || l.Has("tty", "t") {
		t.Error("the line has other options")
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"--host-pi": "host-ip", "-ttty": "tty", "--zzzzzzzz": "", "-x": ""} {
		if got := cmdline.NewTable(flags()...).Suggest(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cmdline.BadValue{
		`invalid value "60" for flag -grace: parse error`: {"grace", `"60"`, "a time such as 90s or 5m"},
		`invalid value "x" for flag -peers: parse error`:  {"peers", `"x"`, "a whole number"},
		`invalid value "x" for flag -other: parse error`:  {"other", `"x"`, ""},
	} {
		if got, ok := cmdline.Bad(errors.New(text), flags()...); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, ok, want)
		}
	}
	if got, ok := cmdline.Bad(errors.New("no such file"), flags()...); ok {
		t.Errorf("another error: %+v", got)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want    string
		width, indent int
	}{
		{"", "", 10, 2},
		{"one two  three", "one two\nthree", 8, 0},
		{"ä ö ü", "ä ö ü", 5, 0},
		{"one two", "one\n  two", 8, 2},
		{"a b\n\nc", "a b\n\n  c", 8, 2},
		{"incomprehensible", "incomprehensible", 4, 0},
	} {
		if got := cmdline.Wrap(test.text, test.width, test.indent); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestShortTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"1h0m0s": "1h", "5m0s": "5m", "1m30s": "1m30s", "10s": "10s", "table": "table"} {
		if got := cmdline.ShortTime(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("a -it --host-ip x --env=1 -- -b")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		l := cmdline.NewTable(flags()...).Split(args)
		if got := len(l.Words) + len(l.Options); got > len(line)+1 {
			t.Errorf("%q: %d parts", line, got)
		}
	})
}
