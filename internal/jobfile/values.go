package jobfile

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// given returns a field that may be missing, which is null then.
func given(f *yamlfile.Fields, name string) yamlfile.Value { return f.Get(name, 0) }

// line returns a text of one line, which is not read as anything else.
func line(v yamlfile.Value) string {
	return v.Text(yamlfile.Rule{Any: true, Null: true, Long: true, Free: true})
}

// formed returns a text of a form; rule says which one.
func formed(v yamlfile.Value, form *regexp.Regexp, rule string) string {
	s := line(v)
	if s != "" && !form.MatchString(s) {
		v.Find(yamlfile.Broken, "%s is %q: use %s", v.Name, yamlfile.Excerpt(s), rule)
		return ""
	}
	return s
}

// wanted returns a name that must be there.
func wanted(f *yamlfile.Fields, name string, form *regexp.Regexp, rule string) string {
	v := f.Get(name, yamlfile.Broken)
	s := formed(v, form, rule)
	if f.Has(name) && v.Kind() != "a list" && v.Kind() != "a map" && v.Node.Value == "" {
		v.Find(yamlfile.Broken, "%s is empty: write %s", v.Name, rule)
	}
	return s
}

// word returns one of the known ones.
func word(v yamlfile.Value, fallback string, known ...string) string {
	if v.Null() {
		return fallback
	}
	s := line(v)
	if !slices.Contains(known, s) {
		v.Find(yamlfile.Broken, "%s %q is not known%s", v.Name, yamlfile.Excerpt(s), yamlfile.Meant(s, known))
		return fallback
	}
	return s
}

// wholeNumber returns a whole number within bounds.
func wholeNumber(v yamlfile.Value, fallback, least, most int) int {
	if n, ok := v.Number(least, most); ok {
		return n
	}
	return fallback
}

// duration returns a time within bounds.
func duration(v yamlfile.Value, fallback, least, most time.Duration) time.Duration {
	if v.Null() {
		return fallback
	}
	s := line(v)
	d, err := parseDuration(s)
	switch {
	case err != nil:
		v.Find(yamlfile.Broken, "%s is %q: %v", v.Name, yamlfile.Excerpt(s), err)
	case d < least || d > most:
		v.Find(yamlfile.Broken, "%s is %s: give %s to %s", v.Name, yamlfile.Excerpt(s), Duration(least), Duration(most))
	default:
		return d
	}
	return fallback
}

// bytes returns a size.
func bytes(v yamlfile.Value) int64 {
	if v.Null() {
		return 0
	}
	s := line(v)
	n, err := parseSize(s)
	if err != nil {
		v.Find(yamlfile.Broken, "%s is %q: %v", v.Name, yamlfile.Excerpt(s), err)
	}
	return n
}

// target returns where something is in a member: an absolute path that is no folder of the system.
func target(v yamlfile.Value) string {
	s := line(v)
	if s == "" {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(s, "/"), "/")
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || strings.Contains(s, ":") || slices.Contains([]string{"proc", "sys", "dev", "run"}, first) {
		v.Find(yamlfile.Broken, "%s is %q: write an absolute path without . and .., outside of /proc, /sys, /dev and /run", v.Name, yamlfile.Excerpt(s))
		return ""
	}
	return s
}

// words returns a command: a list of words, or a text that is divided as a shell does.
func words(v yamlfile.Value) (all []string) {
	switch {
	case v.Null():
		return nil
	case v.Kind() == "a list":
		for _, item := range atMost(v, v.List()) {
			all = append(all, argument(item))
		}
	default:
		s := v.Text(yamlfile.Rule{Any: true, Lines: true, Long: true, Free: true})
		var err error
		if all, err = shellwords.Split(s); err != nil {
			v.Find(yamlfile.Broken, "%s: %v: write a list with one word in each item", v.Name, err)
		}
		for _, w := range all {
			checkFill(v, w)
		}
	}
	if len(all) > maxItems {
		v.Find(yamlfile.Broken, "%s has %d words, at most %d are taken", v.Name, len(all), maxItems)
	}
	return all
}

// argument returns a text of any form, in which variables may stand.
func argument(v yamlfile.Value) string {
	s := v.Text(yamlfile.Rule{Any: true, Null: true, Least: -1, Lines: true, Long: true, Free: true})
	checkFill(v, s)
	return s
}

func checkFill(v yamlfile.Value, s string) {
	if err := fillable(s); err != nil {
		v.Find(yamlfile.Broken, "%s is %q: %v", v.Name, yamlfile.Excerpt(s), err)
	}
}

// cpus returns thousandths of CPUs.
func cpus(v yamlfile.Value) int {
	if v.Null() {
		return 0
	}
	s := line(v)
	n, err := parseThousandths(s)
	if f, bad := strconv.ParseFloat(s, 64); err != nil || bad != nil || f > 4096 {
		v.Find(yamlfile.Broken, "%s is %q: write a number of CPUs, as 2 or 0.5", v.Name, yamlfile.Excerpt(s))
		return 0
	}
	return int(n)
}
