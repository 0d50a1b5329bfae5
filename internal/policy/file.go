package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/policy/sentence"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of a policy.
const (
	MaxBytes     = 64 << 10 // of the file
	maxSentences = 256
	maxEntries   = 256 // of a list of limits
	maxEntry     = 512 // bytes of an entry
)

// The keys of a policy.
const askKey, sentencesKey, approversKey, limitsKey, logsKey, sentenceKey = "ask", "sentences", "approvers", "limits", "logs", "sentence"

// Parse reads the policy of a host of a trust domain; file is what errors and decisions call it. All that is wrong is in the error, one
// line each: file, line, what is wrong, and what was probably meant.
func Parse(file string, data []byte, domain string) (*Policy, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: it has %d bytes, at most %d", file, len(data), MaxBytes)
	}
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	r := reader{file: file}
	p := &Policy{
		file: file, approvers: operators(domain, "*"), logs: operators(domain, "**"),
		limits: limits{gpus: -1, at: map[string]Source{}}, folders: map[string]folder{}, targets: map[string]string{},
	}
	if root != nil {
		r.policy(p, root)
	}
	if err := errors.Join(r.wrong...); err != nil {
		return nil, err
	}
	return p, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// document parses YAML, and returns what its only document has; nil: nothing.
func document(file string, data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // an empty file is a policy that says nothing
	case err != nil:
		m := yamlLine.FindStringSubmatch(err.Error())
		line, what := "1", err.Error()
		if m != nil {
			line, what = max(m[1], "1"), what[len(m[0]):]
		}
		return nil, fmt.Errorf("%s:%s: it is no YAML: %s", file, line, what)
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it has more than one YAML document: leave one", file)
	}
	if len(first.Content) == 0 || first.Content[0].Tag == "!!null" {
		return nil, nil //nolint:nilnil // the same
	}
	return first.Content[0], nil
}

// reader collects what is wrong in a file.
type reader struct {
	file  string
	wrong []error
}

const maxWrong = 20 // mistakes that are told at a time

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if len(r.wrong) < maxWrong {
		r.wrong = append(r.wrong, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
	}
}

// fields calls the function of each key of a mapping. Keys without a value stand for nothing.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s has keys and values, one a line: KEY: VALUE", what)
		return
	}
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		f := known[k.Value]
		switch {
		case f == nil || k.Kind != yaml.ScalarNode:
			if near := suggest.Word(k.Value, names); near != "" {
				r.fail(k, "%.80q is no key of %s: did you mean %s?", k.Value, what, near)
			} else {
				r.fail(k, "%.80q is no key of %s: want %s", k.Value, what, strings.Join(names, ", "))
			}
		case seen[k.Value]:
			r.fail(k, "%s stands there twice", k.Value)
		case v.Tag != "!!null":
			f(v)
		}
		seen[k.Value] = true
	}
}

func (r *reader) policy(p *Policy, root *yaml.Node) {
	var ask bool
	var sentences *yaml.Node
	r.fields(root, "a policy", map[string]func(*yaml.Node){
		askKey:       func(v *yaml.Node) { ask = r.boolean(askKey, v) },
		sentencesKey: func(v *yaml.Node) { sentences = v },
		approversKey: func(v *yaml.Node) { p.approvers, p.named = r.patterns(approversKey, v), true },
		limitsKey:    func(v *yaml.Node) { r.limits(&p.limits, v) },
		foldersKey:   func(v *yaml.Node) { r.folders(p, v) },
		targetsKey:   func(v *yaml.Node) { r.targets(p, v) },
		logsKey:      func(v *yaml.Node) { r.logs(p, v) },
		forwardsKey:  func(v *yaml.Node) { r.forwards(p, v) },
	})
	for _, n := range r.list(sentencesKey, sentences, maxSentences) {
		r.rule(p, n, ask)
	}
}

// logs reads to whom logs may go.
func (r *reader) logs(p *Policy, v *yaml.Node) {
	p.logs = r.patterns(logsKey, v)
	names := text.Clip(p.logs.String(), maxReason/2)
	if len(p.logs) == 0 {
		names = "nobody"
	}
	p.logsAt = Source{File: r.file, Line: v.Line, Text: logsKey + ": " + names}
}

// rule reads one of the sentences: text, or a mapping with the text and whether somebody is asked.
func (r *reader) rule(p *Policy, n *yaml.Node, ask bool) {
	body := n
	if n.Kind == yaml.MappingNode {
		body = nil
		r.fields(n, "a sentence", map[string]func(*yaml.Node){
			sentenceKey: func(v *yaml.Node) { body = v },
			askKey:      func(v *yaml.Node) { ask = r.boolean(askKey, v) },
		})
		if body == nil {
			r.fail(n, "it has no sentence: want sentence: Allow …")
			return
		}
	}
	text, ok := r.text(body)
	if !ok {
		return
	}
	s, err := sentence.Parse(text, hostVocabulary())
	if err != nil {
		r.fail(body, "%s", err)
		return
	}
	if s.Resource != secretResource && s.Where != nil && names(*s.Where, secretName) {
		r.fail(body, "%s is known of secrets alone: write Allow … to use secret where …", secretName)
		return
	}
	p.rules = append(p.rules, rule{Sentence: s, ask: ask, at: Source{File: r.file, Line: body.Line, Text: s.String()}})
}

// list returns the entries of a list; of nothing none.
func (r *reader) list(what string, n *yaml.Node, most int) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		r.fail(n, "%s is a list: each entry on a line of its own, after - ", what)
		return nil
	case len(n.Content) > most:
		r.fail(n, "%s has %d entries, at most %d", what, len(n.Content), most)
		return nil
	}
	return n.Content
}

func (r *reader) text(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!int" {
		r.fail(n, "want text: quote it with \"…\"")
		return "", false
	}
	return n.Value, true
}

func (r *reader) boolean(what string, n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		r.fail(n, "%s is true or false", what)
	}
	return strings.EqualFold(n.Value, "true")
}

func (r *reader) patterns(what string, n *yaml.Node) (all pattern.List) {
	for _, entry := range r.list(what, n, pattern.MaxList) {
		text, ok := r.text(entry)
		if !ok {
			continue
		}
		one, err := pattern.Parse(text)
		if err != nil {
			r.fail(entry, "%s", err)
			continue
		}
		all = append(all, one)
	}
	return all
}

func (r *reader) limits(l *limits, n *yaml.Node) {
	numbers := func(name string, least, most float64, parse func(string) (float64, error), set func(float64)) func(*yaml.Node) {
		return func(v *yaml.Node) {
			f, err := parse(v.Value)
			switch {
			case v.Kind != yaml.ScalarNode || err != nil:
				r.fail(v, "%s is no number of %s%s", strconv.Quote(v.Value), unit(name), because(err))
			case !(f >= least && f <= most):
				r.fail(v, "%s: %s is out of bounds: want %s to %s", name, v.Value, plainNumber(least), plainNumber(most))
			default:
				set(f)
				l.at[name] = Source{File: r.file, Line: v.Line, Text: "limits: " + name + ": " + v.Value}
			}
		}
	}
	names := func(name string, list *[]string, check func(string) error) func(*yaml.Node) {
		return func(v *yaml.Node) {
			l.at[name] = Source{File: r.file, Line: v.Line, Text: "limits: " + name}
			*list = r.names(name, v, check)
		}
	}
	r.fields(n, "limits", map[string]func(*yaml.Node){
		cpusLimit:          numbers(cpusLimit, minCPUs, maxCPUs, parseNumber, func(f float64) { l.held.CPUs = f }),
		memoryLimit:        numbers(memoryLimit, minMemory, maxMemory, parseMemory, func(f float64) { l.held.Memory = int64(f) }),
		gpusLimit:          numbers(gpusLimit, 0, maxGPUs, parseCount, func(f float64) { l.gpus = int(f) }),
		artifactsLimit:     numbers(artifactsLimit, 1, maxMemory, parseMemory, func(f float64) { l.artifacts = int64(f) }),
		artifactsDaysLimit: numbers(artifactsDaysLimit, 1, maxDays, parseCount, func(f float64) { l.artifactsAge = time.Duration(f) * 24 * time.Hour }),
		diskLimit:          numbers(diskLimit, 1, maxMemory, parseMemory, func(f float64) { l.disk = int64(f) }),
		hoursLimit:         numbers(hoursLimit, minHours, maxHours, parseNumber, func(f float64) { l.held.Hours = f }),
		volumesLimit:       names(volumesLimit, &l.volumes, checkEngineName),
		pathsLimit:         names(pathsLimit, &l.paths, checkPath),
		networksLimit:      names(networksLimit, &l.networks, checkEngineName),
		isolationLimit:     names(isolationLimit, &l.isolation, checkOpening),
	})
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func (r *reader) names(what string, n *yaml.Node, check func(string) error) (all []string) {
	for _, entry := range r.list(what, n, maxEntries) {
		text, ok := r.text(entry)
		if !ok {
			continue
		}
		if len(text) > maxEntry {
			r.fail(entry, "%s: an entry has %d bytes, at most %d", what, len(text), maxEntry)
			continue
		}
		if err := check(text); err != nil {
			r.fail(entry, "%s: %s", what, err)
			continue
		}
		all = append(all, text)
	}
	return all
}

// parseNumber reads a number of things.
func parseNumber(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errors.New("want a number, such as 8")
	}
	return f, nil
}

// parseCount reads a whole number of things.
func parseCount(s string) (float64, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New("want a whole number, such as 2, or 0 for none")
	}
	return float64(n), nil
}
