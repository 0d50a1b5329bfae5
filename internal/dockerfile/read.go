package dockerfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/suggest"
)

// Scratch is the image that has nothing in it.
const Scratch = "scratch"

// File is a Dockerfile that was read.
type File struct {
	steps  []step
	stages []string // their names, empty: none
	args   []arg    // those before the first FROM, which names of images may have in them
}

// step is an instruction.
type step struct {
	line int
	word string // in capitals
	rest string
	// base is the image of a FROM, or of a COPY --from, unless it is of this file; empty: none.
	base string
	as   string // name of the stage that a FROM begins
}

type arg struct{ name, value string }

// words are those that begin an instruction.
var words = []string{
	"FROM", "ARG", "RUN", "CMD", "LABEL", "MAINTAINER", "EXPOSE", "ENV", "ADD", "COPY", "ENTRYPOINT", "VOLUME", "USER", "WORKDIR", "ONBUILD", "STOPSIGNAL",
	"HEALTHCHECK", "SHELL",
}

// Read reads a Dockerfile. An error names its line, from 1.
func Read(text string) (*File, error) {
	f := &File{}
	for _, l := range join(text) {
		if l.wrong != "" {
			return nil, fmt.Errorf("line %d: %s", l.number, l.wrong)
		}
		if err := f.take(l); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	if len(f.stages) == 0 {
		return nil, fmt.Errorf("it has no FROM: begin with the image to build on, or FROM %s", Scratch)
	}
	return f, nil
}

// Bases returns the images that the file starts from or copies from, as it names them; each once, in their order.
func (f *File) Bases() (all []string) {
	for _, s := range f.steps {
		if s.base != "" && !slices.Contains(all, s.base) {
			all = append(all, s.base)
		}
	}
	return all
}

// Triggers returns what the file has done in builds that start from one of its stages (ONBUILD).
func (f *File) Triggers() (all []string) {
	for _, s := range f.steps {
		if s.word == "ONBUILD" {
			all = append(all, s.rest)
		}
	}
	return all
}

// Runs reports whether a trigger runs a program of the image.
func Runs(trigger string) bool {
	return strings.EqualFold(firstWord(strings.TrimSpace(trigger)), "RUN")
}

// Marks are what a file has beside its own steps, as KEY=VALUE in words that need no quotes; empty: nothing.
type Marks struct {
	Label string // of all that is made of the file
	// Env is a variable that each RUN of the file has, whatever images and steps before it say. What is made of the file keeps it.
	Env string
}

// Write returns the file with one step a line. pinned is what stands in the place of an image, such as its ID.
func (f *File) Write(pinned map[string]string, marks Marks) string {
	var w strings.Builder
	for _, s := range f.steps {
		rest := s.rest
		switch {
		case s.word == "FROM":
			if s.base != "" {
				rest = pinned[s.base]
			}
			if s.as != "" {
				rest += " AS " + s.as
			}
		case s.base != "":
			rest = "--from=" + pinned[s.base] + " " + rest
		}
		fmt.Fprintf(&w, "%s %s\n", s.word, rest)
		if s.word == "FROM" && marks.Label != "" {
			fmt.Fprintf(&w, "LABEL %s\n", marks.Label)
		}
		if (s.word == "FROM" || s.word == "ENV") && marks.Env != "" { // an ARG does not change what an ENV has set
			fmt.Fprintf(&w, "ENV %s\n", marks.Env)
		}
	}
	return w.String()
}

// take adds an instruction.
func (f *File) take(l line) error {
	s, err := stepOf(l)
	if err != nil {
		return err
	}
	if len(f.stages) == 0 && s.word != "FROM" && s.word != "ARG" {
		return fmt.Errorf("%s stands before the first FROM", s.word)
	}
	switch s.word {
	case "FROM":
		err = f.from(&s)
	case "ARG":
		if len(f.stages) == 0 {
			err = f.arg(s.rest)
		}
	case "COPY":
		err = f.copies(&s)
	default:
		err = s.check()
	}
	f.steps = append(f.steps, s)
	return err
}

// heredocs are the steps in which some builders read << as the beginning of a document, whose lines are then no steps to them.
var heredocs = []string{"RUN", "COPY", "ADD", "ONBUILD"}

// stepOf takes a line apart.
func stepOf(l line) (step, error) {
	text := strings.TrimSpace(l.text)
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		end = len(text)
	}
	s := step{line: l.number, word: strings.ToUpper(text[:end]), rest: strings.TrimSpace(text[end:])}
	switch {
	case !slices.Contains(words, s.word):
		meant := ""
		if near := suggest.Word(s.word, words); near != "" {
			meant = ": did you mean " + near + "?"
		}
		return s, fmt.Errorf("%.40q is no step of a Dockerfile%s", text[:end], meant)
	case s.rest == "":
		return s, fmt.Errorf("%s says nothing", s.word)
	case strings.HasSuffix(s.rest, `\`):
		return s, fmt.Errorf("%s ends with a backslash: leave it out", s.word)
	case slices.Contains(heredocs, s.word) && strings.Contains(s.rest, "<<"):
		return s, fmt.Errorf("%s has <<, which builders may take for a document of several lines: write it without", s.word)
	}
	return s, nil
}

// check refuses what a builder may not do.
func (s *step) check() error {
	switch s.word {
	case "ADD":
		return s.added()
	case "RUN":
		if strings.HasPrefix(s.rest, "--") {
			return fmt.Errorf("options of RUN, such as %.40q, are not taken: leave them out", firstWord(s.rest))
		}
	case "LABEL":
		return s.labels()
	case "ONBUILD":
		return CheckTrigger(s.rest)
	}
	return nil
}

// labels refuses those that are swarmd's own, however they are written.
func (s *step) labels() error {
	plain := strings.NewReplacer(`"`, "", `'`, "").Replace(strings.ToLower(s.rest))
	if strings.Contains(plain, "io.swarmd") {
		return errors.New("labels that begin with io.swarmd are swarmd's own: choose another name")
	}
	for _, pair := range strings.Fields(plain) {
		if key, _, _ := strings.Cut(pair, "="); strings.ContainsAny(key, `$\`) {
			return fmt.Errorf("LABEL with %.80q: write the label's name as it is, without $ and backslash", key)
		}
	}
	return nil
}

// CheckTrigger refuses what an image may not have done in a build that starts from it (ONBUILD).
func CheckTrigger(text string) error {
	s, err := stepOf(line{text: text})
	switch {
	case err != nil:
		return err
	case slices.Contains([]string{"FROM", "ONBUILD", "MAINTAINER"}, s.word):
		return fmt.Errorf("ONBUILD %s is not allowed", s.word)
	case s.word == "COPY":
		flags, _ := optionsOf(s.rest)
		if i := slices.IndexFunc(flags, func(o string) bool { return !owner.MatchString(o) }); i >= 0 {
			return fmt.Errorf("ONBUILD COPY with %.80q is not taken: leave it out", flags[i])
		}
		return nil
	}
	return s.check()
}

// added refuses ADD with what the engine itself would fetch, on the host's own network.
func (s *step) added() error {
	flags, rest := optionsOf(s.rest)
	for _, o := range flags {
		if !owner.MatchString(o) {
			return fmt.Errorf("ADD with %.80q is not taken: leave it out", o)
		}
	}
	plain := strings.NewReplacer(`"`, "", "'", "").Replace(rest) // a shell would take them away
	if strings.Contains(plain, "://") || strings.Contains(plain, "git@") || strings.ContainsAny(rest, `$\`) {
		return errors.New("ADD of a URL or of a variable is not taken, as the host itself would fetch it: fetch it with RUN, or by a task MAKE_SWARM_USER_CONTENT")
	}
	return nil
}

var (
	stageName = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)
	owner     = regexp.MustCompile(`^--chown=[A-Za-z0-9_.:-]+$`) // an option in which no other hides
)

// from reads FROM IMAGE [AS NAME].
func (f *File) from(s *step) error {
	parts := strings.Fields(s.rest)
	if strings.HasPrefix(parts[0], "--") {
		return fmt.Errorf("options of FROM, such as %.40q, are not taken: leave them out", parts[0])
	}
	if len(parts) == 3 && strings.EqualFold(parts[1], "AS") {
		s.as = strings.ToLower(parts[2])
		if !stageName.MatchString(s.as) || s.as == Scratch || slices.Contains(f.stages, s.as) {
			return fmt.Errorf("bad name of a stage %.80q: use one that no other stage has, of a-z 0-9 _ . - that begins with a letter", parts[2])
		}
	} else if len(parts) != 1 {
		return fmt.Errorf("FROM %.80q: want FROM IMAGE, or FROM IMAGE AS NAME", s.rest)
	}
	name, err := f.expand(parts[0])
	if err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("FROM %.80q is no image: give its ARG a value", parts[0])
	}
	s.rest = name
	if stage := strings.ToLower(name); slices.Contains(f.stages, stage) {
		s.rest = stage
	} else if name != Scratch {
		s.base = name
	}
	f.stages = append(f.stages, s.as)
	return nil
}

// copies reads the options of COPY. What it copies from is a stage of the file, by name or number, or another image.
func (f *File) copies(s *step) error {
	flags, rest := optionsOf(s.rest)
	kept := []string{}
	for _, o := range flags {
		from, is := strings.CutPrefix(o, "--from=")
		switch {
		case !is && owner.MatchString(o):
			kept = append(kept, o)
		case !is:
			return fmt.Errorf("COPY with %.80q is not taken: leave it out", o)
		case from == "" || strings.ContainsAny(from, "$\\\"'") || s.base != "":
			return fmt.Errorf("COPY with %.80q: name one stage, or one image", o)
		case f.stage(from):
			kept = append(kept, o)
		default:
			s.base = from
		}
	}
	s.rest = strings.TrimSpace(strings.Join(append(kept, rest), " "))
	return nil
}

// stage reports whether a name or a number is that of a stage before this one. This one's own name is an image to builders.
func (f *File) stage(s string) bool {
	before := f.stages[:len(f.stages)-1]
	n, err := strconv.Atoi(s)
	return slices.Contains(before, strings.ToLower(s)) || err == nil && n < len(before) && strconv.Itoa(n) == s && n >= 0
}

// optionsOf divides the options that begin an instruction from the rest.
func optionsOf(s string) (options []string, rest string) {
	for strings.HasPrefix(s, "--") {
		o := firstWord(s)
		options = append(options, o)
		s = strings.TrimSpace(s[len(o):])
	}
	return options, s
}

func firstWord(s string) string {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i]
	}
	return s
}
