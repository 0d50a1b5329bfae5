package taskfile

import (
	"bytes"
	"fmt"

	"github.com/swarmd/swarmd/internal/yamlfile"
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
	fmt.Fprintf(w, "%s : %s\n", name, yamlfile.Scalar(s))
}

// head writes the name of a list, which follows; null for one that is empty.
func (w *writer) head(name string, items int) {
	if items == 0 {
		w.field(name, "")
		return
	}
	fmt.Fprintf(w, "%s :\n", name)
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
		fmt.Fprintf(w, "- %s\n", yamlfile.Scalar(s))
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
		fmt.Fprintf(w, "- %s : %s\n", yamlfile.Scalar(v.Name), yamlfile.Scalar(v.Value))
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
