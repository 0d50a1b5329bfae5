package jobfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Overrides are what is said when a job is started, as it is typed. Empty ones leave the job as it is.
type Overrides struct {
	Env       []string // NAME=VALUE, each added or in the place of the file's
	Args      []string // in the place of the file's
	Image     string
	Replicas  []string // N for a job without groups, else GROUP=N
	Resources []string // NAME=VALUE, as cpu=2
	Network   string
	Timeout   string
}

// Change is a value of the file and what was said in its place.
type Change struct {
	Field string // as image, or worker.env.EPOCHS
	Was   string // empty: nothing
	Is    string
}

// Override returns the job as it is started, and what of it differs from its file. What is said of all groups comes before what a group has of
// its own.
func (j *Job) Override(o Overrides) (*Job, []Change, error) {
	over := &overriding{Job: j.clone()}
	over.image(o.Image)
	over.args(o.Args)
	for _, step := range []error{over.env(o.Env), over.replicas(o.Replicas), over.resources(o.Resources), over.timeout(o.Timeout)} {
		if step != nil {
			return nil, nil, step
		}
	}
	// What is said here is held to what a file's is, and what nobody says is as it would be in such a file.
	switch {
	case o.Network != "":
		over.changed("network", over.Network, o.Network)
		over.Network = o.Network
	case over.AnyNetwork:
		over.Network = ""
	}
	d := &yamlfile.Document{Once: true}
	again := readJob(d, []byte(over.Text()))
	if wrong := d.All(yamlfile.Odd, yamlfile.Unfilled, yamlfile.Broken); len(wrong) > 0 {
		return nil, nil, fmt.Errorf("with what was said: %s", wrong[0].Text)
	}
	again.Source = j.Source
	return again, over.changes, nil
}

// overriding is a job while it is changed.
type overriding struct {
	*Job
	changes []Change
}

// each calls fn for the settings of the job, if it has no groups, or of each group.
func (o *overriding) each(fn func(prefix string, s *Settings)) {
	if len(o.Groups) == 0 || o.isCluster() {
		fn("", &o.Settings)
	}
	for i := range o.Groups {
		fn(o.Groups[i].Name+".", &o.Groups[i].Settings)
	}
}

func (o *overriding) changed(field, was, is string) {
	if was != is {
		o.changes = append(o.changes, Change{field, was, is})
	}
}

func (o *overriding) image(is string) {
	if is == "" {
		return
	}
	o.each(func(prefix string, s *Settings) {
		o.changed(prefix+"image", s.Image, is)
		s.Image = is
	})
	o.Image = is
}

func (o *overriding) args(is []string) {
	if len(is) == 0 {
		return
	}
	o.each(func(prefix string, s *Settings) {
		if prefix != "" && o.isCluster() {
			return // the job's are its program's
		}
		o.changed(prefix+"args", quotedWords(s.Args), quotedWords(is))
		s.Args = is
	})
	o.Args = is
}

func (o *overriding) env(said []string) error {
	var top []Var
	for _, s := range said {
		name, value, ok := strings.Cut(s, "=")
		if !ok || !varForm.MatchString(name) {
			return fmt.Errorf("the variable %q is not known: write NAME=VALUE", yamlfile.Excerpt(s))
		}
		top = WithVars(top, []Var{{name, value}})
	}
	o.each(func(prefix string, s *Settings) {
		for _, v := range top {
			was := ""
			if i := slices.IndexFunc(s.Env, func(x Var) bool { return x.Name == v.Name }); i >= 0 {
				was = s.Env[i].Value
			}
			o.changed(prefix+"env."+v.Name, was, v.Value)
		}
		s.Env = WithVars(s.Env, top)
	})
	o.Env = WithVars(o.Env, top)
	return nil
}

func (o *overriding) replicas(said []string) error {
	for _, s := range said {
		name, count, of := strings.Cut(s, "=")
		if !of {
			name, count = "", s
		}
		to, err := o.counted(name)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > MaxMembers {
			return fmt.Errorf("replicas %q: give a number from 1 to %d", yamlfile.Excerpt(count), MaxMembers)
		}
		field := "replicas"
		if name != "" {
			field = name + ".replicas"
		}
		o.changed(field, strconv.Itoa(*to), count)
		*to = n
	}
	return nil
}

// counted returns where the replicas of a group are, or of the job.
func (o *overriding) counted(name string) (*int, error) {
	var names []string
	for i := range o.Groups {
		if names = append(names, o.Groups[i].Name); o.Groups[i].Name == name {
			return &o.Groups[i].Replicas, nil
		}
	}
	switch {
	case name == "" && len(names) == 0:
		return &o.Replicas, nil
	case len(names) == 0:
		return nil, fmt.Errorf("replicas of %q: the job has no groups: write the number alone", yamlfile.Excerpt(name))
	case name == "":
		return nil, fmt.Errorf("the job has groups: write GROUP=N, as %s=2", names[0])
	}
	return nil, fmt.Errorf("the job has no group %q%s", yamlfile.Excerpt(name), yamlfile.Meant(name, names))
}

func (o *overriding) resources(said []string) error {
	if len(said) == 0 {
		return nil
	}
	var lines strings.Builder
	for _, s := range strings.Split(strings.Join(said, ","), ",") {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("the resource %q is not known: write NAME=VALUE, as cpu=2 or memory=4GB", yamlfile.Excerpt(s))
		}
		fmt.Fprintf(&lines, "%s: %s\n", yamlfile.Scalar(name), yamlfile.Scalar(value))
	}
	var wrong error
	apply := func(s *Settings) {
		d := &yamlfile.Document{Once: true}
		root := d.Parse([]byte(lines.String()))
		if root != nil {
			s.Resources = resources(d.At(root, "resources"), s.Resources)
		}
		if first := d.First(yamlfile.Broken); first != nil {
			wrong = fmt.Errorf("%s", first.Text)
		}
	}
	o.each(func(prefix string, s *Settings) {
		was := s.Resources.String()
		apply(s)
		o.changed(prefix+"resources", was, s.Resources.String())
	})
	if len(o.Groups) > 0 && !o.isCluster() {
		apply(&o.Settings)
	}
	return wrong
}

func (o *overriding) timeout(said string) error {
	if said == "" {
		return nil
	}
	d, err := parseDuration(said)
	if err != nil || d < time.Second || d > MaxTimeout {
		return fmt.Errorf("timeout %q: give a time from 1s to %s, as 6h or 2d", yamlfile.Excerpt(said), Duration(MaxTimeout))
	}
	o.changed("timeout", Duration(o.Timeout), Duration(d))
	o.Timeout = d
	return nil
}

// quotedWords are words as a list, so that one that has blanks is seen as one.
func quotedWords(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", words)
}
