package jobfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// settings reads what a group has of its own over what stands above it.
func settings(f *yamlfile.Fields, above Settings) Settings {
	s := above
	if v := given(f, "image"); !v.Null() {
		s.Image = formed(v, imageForm, "the name of an image, as torch:2 or with its digest")
	}
	if v := given(f, "command"); !v.Null() {
		s.Command = words(v)
		if len(s.Command) == 0 && !v.Doc.Broken() || len(s.Command) > 0 && s.Command[0] == "" {
			v.Find(yamlfile.Broken, "%s is empty: write a program with its arguments", v.Name)
		}
	}
	if v := given(f, "args"); !v.Null() {
		s.Args = words(v)
	}
	s.Env = WithVars(above.Env, environment(given(f, "env")))
	if v := given(f, "secrets"); !v.Null() {
		s.Secrets = secrets(v)
	}
	s.Resources = resources(given(f, "resources"), above.Resources)
	if v := given(f, "hosts"); !v.Null() {
		s.Hosts = hosts(v)
	}
	if v := given(f, "volumes"); !v.Null() {
		s.Volumes = volumes(v)
	}
	if v := given(f, "ready"); !v.Null() {
		s.Ready = ready(v)
	}
	return s
}

// environment reads variables, by name.
func environment(v yamlfile.Value) (all []Var) {
	if v.Null() {
		return nil
	}
	if v.Node.Kind != yaml.MappingNode {
		v.Find(yamlfile.Broken, "%s is %s: write a map, as NAME: value", v.Name, v.Kind())
		return nil
	}
	entries := v.Entries()
	if len(entries)/2 > maxItems {
		v.Find(yamlfile.Broken, "%s has %d variables, at most %d are taken", v.Name, len(entries)/2, maxItems)
		return nil
	}
	for i := 0; i+1 < len(entries); i += 2 {
		k := v.Doc.At(entries[i], v.Name)
		x := v.Doc.At(entries[i+1], v.Name+"."+yamlfile.Excerpt(k.Node.Value))
		name := k.Node.Value
		if k.Node.Kind != yaml.ScalarNode || !varForm.MatchString(name) {
			k.Find(yamlfile.Broken, "%s has the name %q: use letters, digits and _", v.Name, yamlfile.Excerpt(name))
			continue
		}
		at, twice := slices.BinarySearchFunc(all, name, func(v Var, name string) int { return compare(v.Name, name) })
		if twice {
			k.Find(yamlfile.Broken, "%s has %s twice: write it once", v.Name, name)
			continue
		}
		all = slices.Insert(all, at, Var{name, argument(x)})
	}
	return all
}

// secrets reads names, each as itself or as {name: N, as: file}.
func secrets(v yamlfile.Value) (all []Secret) {
	for _, item := range atMost(v, v.List()) {
		var s Secret
		if item.Kind() == "a map" {
			f := item.Fields(yamlfile.Broken, "name", "as")
			if f == nil {
				continue
			}
			s.Name = wanted(f, "name", varForm, "letters, digits and _")
			s.File = word(given(f, "as"), "env", "env", "file") == "file"
		} else {
			s.Name = formed(item, varForm, "the name of a secret: letters, digits and _; its value stays on the hosts")
		}
		if slices.ContainsFunc(all, func(x Secret) bool { return x.Name == s.Name }) {
			item.Find(yamlfile.Broken, "%s is %q, which stands there before: write it once", item.Name, s.Name)
		}
		all = append(all, s)
	}
	return all
}

func resources(v yamlfile.Value, r Resources) Resources {
	if v.Null() {
		return r
	}
	f := v.Fields(yamlfile.Broken, "cpu", "gpu", "memory", "disk", "shm")
	if f == nil {
		return r
	}
	if c := given(f, "cpu"); !c.Null() {
		r.CPU = cpus(c)
	}
	r.GPU = wholeNumber(given(f, "gpu"), r.GPU, 0, 1024)
	for _, x := range []struct {
		name string
		to   *int64
	}{{"memory", &r.Memory}, {"disk", &r.Disk}, {"shm", &r.Shm}} {
		if s := given(f, x.name); !s.Null() {
			*x.to = bytes(s)
		}
	}
	return r
}

// hosts reads the names of hosts.
func hosts(v yamlfile.Value) (all []string) {
	for _, item := range atMost(v, v.List()) {
		name := line(item)
		switch {
		case naming.CheckNode(name) != nil:
			item.Find(yamlfile.Broken, "%s is %q: write the name of a host, as `swarmctl list nodes` has it", item.Name, yamlfile.Excerpt(name))
		case slices.Contains(all, name):
			item.Find(yamlfile.Broken, "%s is %s, which stands there before: write it once", item.Name, name)
		default:
			all = append(all, name)
		}
	}
	return all
}

// volumes reads NAME:/target[:ro|:rw].
func volumes(v yamlfile.Value) (all []Volume) {
	for _, item := range atMost(v, v.List()) {
		s := line(item)
		parts := strings.Split(s, ":")
		mode := "ro"
		if len(parts) == 3 {
			mode = parts[2]
		}
		if len(parts) < 2 || len(parts) > 3 || !volumeForm.MatchString(parts[0]) || mode != "ro" && mode != "rw" {
			item.Find(yamlfile.Broken, "%s is %q: write NAME:/path, or NAME:/path:rw where it is written to; a host's policy says which folder NAME is", item.Name, yamlfile.Excerpt(s))
			continue
		}
		at := item
		node := *item.Node
		node.Value = parts[1]
		at.Node = &node
		x := Volume{Name: parts[0], Target: target(at), Write: mode == "rw"}
		if slices.ContainsFunc(all, func(y Volume) bool { return y.Target == x.Target }) {
			item.Find(yamlfile.Broken, "%s is at %s, where another volume is: choose another path", item.Name, x.Target)
		}
		all = append(all, x)
	}
	return all
}

// ReadVolumes reads volumes that are said in another place than a file, each as a file has it.
func ReadVolumes(said []string) (all []Volume, err error) {
	if len(said) == 0 {
		return nil, nil
	}
	var list strings.Builder
	for _, s := range said {
		fmt.Fprintf(&list, "- %s\n", yamlfile.Scalar(s))
	}
	d := &yamlfile.Document{Once: true}
	if root := d.Parse([]byte(list.String())); root != nil {
		all = volumes(d.At(root, "volumes"))
	}
	if first := d.First(yamlfile.Broken); first != nil {
		return nil, errors.New(first.Text)
	}
	return all, nil
}

func ready(v yamlfile.Value) (r Ready) {
	f := v.Fields(yamlfile.Broken, "command", "port", "period", "timeout")
	if f == nil {
		return r
	}
	r.Command = words(given(f, "command"))
	r.Port = wholeNumber(given(f, "port"), 0, 1, 65535)
	r.Period = duration(given(f, "period"), DefaultPeriod, time.Second, time.Hour)
	r.Timeout = duration(given(f, "timeout"), DefaultPeriod, time.Second, MaxAsk)
	if (len(r.Command) > 0) == (r.Port > 0) {
		v.Find(yamlfile.Broken, "%s needs a command or a port, one of them", v.Name)
	}
	return r
}

// atMost bounds a list.
func atMost(v yamlfile.Value, items []yamlfile.Value) []yamlfile.Value {
	if len(items) > maxItems {
		v.Find(yamlfile.Broken, "%s has %d items, at most %d are taken", v.Name, len(items), maxItems)
		return nil
	}
	return items
}
