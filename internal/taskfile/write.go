package taskfile

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// writer writes a body as the original keeps it: each field and each item on a line of its own.
type writer struct{ bytes.Buffer }

// definition returns a body's lines. ReadBody returns the body again.
func definition(b Body) []byte {
	var w writer
	b.put(&w)
	return w.Bytes()
}

// field writes a text, and null for none.
func (w *writer) field(name, s string) {
	if s == "" {
		fmt.Fprintf(w, "%s : null\n", name)
		return
	}
	fmt.Fprintf(w, "%s : %s\n", name, scalar(s))
}

// head writes the name of a list, which follows; null for one that is empty.
func (w *writer) head(name string, items int) {
	if items == 0 {
		w.field(name, "")
		return
	}
	fmt.Fprintf(w, "%s :\n", name)
}

// plain is what YAML takes as it is, in lists and maps, as nothing but text, a number, or a truth value.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._$(][^\x00-\x1f\x7f-\x{a0}\x{2000}-\x{206f}\x{fff0}-\x{ffff}]*$`)

// scalar writes a text in one line.
func scalar(s string) string {
	bare := plain.MatchString(s) && !strings.Contains(s, ": ") && !strings.Contains(s, " #") && !strings.HasSuffix(s, ":") && s == strings.TrimSpace(s) &&
		!strings.HasPrefix(s, "...")
	switch strings.ToLower(s) {
	case "null", "y", "n":
		bare = false
	}
	switch {
	case bare:
		return s
	case !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' && !unicode.IsLetter(r) }):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return doubleQuoted(s)
}

// doubleQuoted writes a text in double quotes, with escapes that YAML knows.
func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r <= '~' || unicode.IsLetter(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (p PullImage) put(w *writer) {
	if p.Auth.Username != "" || p.Auth.Password != "" {
		w.head("Auth", 2)
		w.field("  Password", p.Auth.Password)
		w.field("  Username", p.Auth.Username)
	} else {
		w.field("Auth", p.Auth.Config)
	}
	w.field("OrgAndReg", p.OrgAndReg)
	w.field("RepoName", p.RepoName)
	w.field("Tag", p.Tag)
}

func (m MakeUserContainer) put(w *writer) {
	w.field("BuildContext", m.BuildContext)
	w.head("BuildSteps", len(m.BuildSteps))
	for _, s := range m.BuildSteps {
		fmt.Fprintf(w, "- %s\n", scalar(s))
	}
	w.field("BuildType", "INLINE")
}

func (m MakeSwarmUserContent) put(w *writer) {
	w.field("ContentType", m.ContentType)
	w.head("OpsList", len(m.Ops))
	for _, o := range m.Ops {
		w.field("- Operation", o.Operation)
		if o.Out != "" {
			w.head("  Options", 1)
			w.field("  - Out", o.Out)
		} else {
			w.field("  Options", "")
		}
		w.field("  Target", o.Target)
	}
}

func (r RunSwarm) put(w *writer) {
	w.field("Command", r.Command)
	w.field("Entrypoint", r.Entrypoint)
	w.head("Envvars", len(r.Env))
	for _, v := range r.Env {
		fmt.Fprintf(w, "- %s : %s\n", scalar(v.Name), scalar(v.Value))
	}
	w.field("PrivateContent", r.PrivateContent)
	w.head("SharedContent", len(r.SharedContent))
	for _, s := range r.SharedContent {
		w.field("- MType", s.MountType)
		w.field("  Src", s.Src)
		w.field("  Tgt", s.Tgt)
	}
	w.field("WorkingDir", r.WorkingDir)
}
