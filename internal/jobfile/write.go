package jobfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

// writer writes a job as a file, each value in a line of its own.
type writer struct {
	strings.Builder
	indent string
}

// Text returns the job as a file without its source. Read reads the same job of it. What holds by default stands there too, so that a later
// version, in which another might, does not change what was approved.
func (j *Job) Text() string {
	var w writer
	w.field("name", j.Name)
	w.field("framework", j.Framework)
	w.text("source", j.Folder)
	w.settings(j.Settings, Settings{})
	if len(j.Groups) == 0 {
		w.field("replicas", strconv.Itoa(j.Replicas))
	} else {
		w.line("groups:")
		for _, g := range j.Groups {
			w.group(g, j.aboveGroups())
		}
	}
	w.text("network", j.Network)
	w.text("work_dir", j.WorkDir)
	if j.Artifacts.Dir != "" {
		w.line("artifacts:")
		w.field("  dir", j.Artifacts.Dir)
		w.text("  to", j.Artifacts.To)
		w.field("  every", Duration(j.Artifacts.Every))
	}
	w.text("start", j.Start)
	w.text("done_when", j.DoneWhen)
	if j.TTL > 0 {
		w.line("ends:")
		w.field("  ttl", Duration(j.TTL))
	}
	for _, t := range []struct {
		name string
		is   time.Duration
	}{{"timeout", j.Timeout}, {"ready_timeout", j.ReadyTimeout}, {"grace", j.Grace}} {
		w.field(t.name, Duration(t.is))
	}
	w.field("restarts", strconv.Itoa(j.Restarts))
	if b := j.Beside; b.SL != "" {
		w.line("beside:")
		w.field("  sl", b.SL)
		w.field("  address", b.Address)
		w.field("  port", strconv.Itoa(b.Port))
		w.field("  epoch", strconv.Itoa(b.Epoch))
	}
	w.text("compat", j.Compat)
	return w.String()
}

func (w *writer) line(s string) { w.WriteString(w.indent + s + "\n") }

// field writes a value that is there.
func (w *writer) field(name, value string) { w.line(name + ": " + yamlfile.Scalar(value)) }

// text writes a value if there is one.
func (w *writer) text(name, value string) {
	if value != "" {
		w.field(name, value)
	}
}

// list writes values if they are others than those above, and an empty list where those above are to be left out.
func (w *writer) list(name string, values, above []string) {
	switch {
	case slices.Equal(values, above):
	case len(values) == 0:
		w.line(name + ": []")
	default:
		w.line(name + ":")
		for _, v := range values {
			w.line("- " + yamlfile.Scalar(v))
		}
	}
}

func (w *writer) group(g Group, above Settings) {
	w.field("- name", g.Name)
	w.indent = "  "
	w.field("replicas", strconv.Itoa(g.Replicas))
	if g.MinSuccess > 0 {
		w.field("min_success", strconv.Itoa(g.MinSuccess))
	}
	w.settings(g.Settings, above)
	w.indent = ""
}

// settings writes those that are others than those above.
func (w *writer) settings(s, above Settings) {
	if s.Image != above.Image {
		w.field("image", s.Image)
	}
	if len(s.Command) > 0 {
		w.list("command", s.Command, above.Command)
	}
	w.list("args", s.Args, above.Args)
	w.env(s.Env, above.Env)
	w.secrets(s.Secrets, above.Secrets)
	w.resources(s.Resources, above.Resources)
	w.list("hosts", s.Hosts, above.Hosts)
	w.list("volumes", volumeTexts(s.Volumes), volumeTexts(above.Volumes))
	if s.Ready.Set() && !sameReady(s.Ready, above.Ready) {
		w.ready(s.Ready)
	}
}

func (w *writer) ready(r Ready) {
	w.line("ready:")
	outer := w.indent
	w.indent += "  "
	w.list("command", r.Command, nil)
	if r.Port > 0 {
		w.field("port", strconv.Itoa(r.Port))
	}
	w.field("period", Duration(r.Period))
	w.field("timeout", Duration(r.Timeout))
	w.indent = outer
}

func sameReady(a, b Ready) bool {
	return slices.Equal(a.Command, b.Command) && a.Port == b.Port && a.Period == b.Period && a.Timeout == b.Timeout
}

func (w *writer) env(vars, above []Var) {
	vars = slices.DeleteFunc(slices.Clone(vars), func(v Var) bool { return slices.Contains(above, v) })
	if len(vars) == 0 {
		return
	}
	w.line("env:")
	for _, v := range vars {
		w.field("  "+v.Name, v.Value)
	}
}

func (w *writer) secrets(all, above []Secret) {
	switch {
	case slices.Equal(all, above):
	case len(all) == 0:
		w.line("secrets: []")
	default:
		w.line("secrets:")
		for _, s := range all {
			w.field("- name", s.Name)
			if s.File {
				w.field("  as", "file")
			}
		}
	}
}

func (w *writer) resources(r, above Resources) {
	if r == above {
		return
	}
	w.line("resources:")
	if r.CPU != above.CPU {
		w.field("  cpu", thousandths(r.CPU))
	}
	if r.GPU != above.GPU {
		w.field("  gpu", strconv.Itoa(r.GPU))
	}
	for _, s := range []struct {
		name      string
		is, above int64
	}{{"memory", r.Memory, above.Memory}, {"disk", r.Disk, above.Disk}, {"shm", r.Shm, above.Shm}} {
		if s.is != s.above {
			w.field("  "+s.name, sizeText(s.is))
		}
	}
}

// volumeTexts are volumes as a file has them.
func volumeTexts(all []Volume) (texts []string) {
	for _, v := range all {
		texts = append(texts, v.String())
	}
	return texts
}

// String is the volume as a file has it.
func (v Volume) String() string {
	mode := "ro"
	if v.Write {
		mode = "rw"
	}
	return fmt.Sprintf("%s:%s:%s", v.Name, v.Target, mode)
}

// String is what a member needs, in words; empty if it needs nothing.
func (r Resources) String() string {
	var all []string
	add := func(yes bool, s string) {
		if yes {
			all = append(all, s)
		}
	}
	add(r.CPU > 0, "cpu="+thousandths(r.CPU))
	add(r.GPU > 0, "gpu="+strconv.Itoa(r.GPU))
	add(r.Memory > 0, "memory="+sizeText(r.Memory))
	add(r.Disk > 0, "disk="+sizeText(r.Disk))
	add(r.Shm > 0, "shm="+sizeText(r.Shm))
	return strings.Join(all, ",")
}
