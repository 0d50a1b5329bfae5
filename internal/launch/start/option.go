package start

import (
	"encoding"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/cmdline"
)

// The tags of a struct's fields are the one table of options: `option:"NAME"` or `option:"NAME,PLACE"`. Read fills the fields from what
// a user gave, and what a container is told is made of the same fields. A field's zero value stands for an option that was not given.
const tag = "option"

// Place is what becomes of an option when its command runs in a container.
type Place string

// The places of options.
const (
	Onward   Place = ""         // swarmd in the container gets it as it is
	Launcher Place = "launcher" // it is for the launcher or for the container
	File     Place = "file"     // a file of this host, mounted at the same path
	Dir      Place = "dir"      // a directory of this host, likewise
	Join     Place = "join"     // where a join token comes from: the launcher gets it
	Secret   Place = "secret"   // its values go by variables: every user of this host can read a command line
	Host     Place = "host"     // translated one by one
)

// option is one field of a struct of options, or one of an agent's.
type option struct {
	name  string
	place Place
	value reflect.Value // of the field, or of the Agent
}

// optionsOf lists the tagged fields of a struct, and those of structs in it, in their order.
func optionsOf(v reflect.Value) []option {
	var list []option
	for i := range v.NumField() {
		name, place, _ := strings.Cut(v.Type().Field(i).Tag.Get(tag), ",")
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[Agent]():
			for _, name := range agentOptions() {
				list = append(list, option{name, agentPlace(name), f})
			}
		case name != "":
			list = append(list, option{name, Place(place), f})
		case f.Kind() == reflect.Struct:
			list = append(list, optionsOf(f)...)
		}
	}
	return list
}

// Places returns the place of each option that a pointer to a struct of options has, by name.
func Places(options any) map[string]Place {
	places := map[string]Place{}
	for _, o := range optionsOf(reflect.ValueOf(options).Elem()) {
		places[o.name] = o.place
	}
	return places
}

// Read fills a struct of options, to which into points. given returns the values of an option in its order, none if it was not
// given. The error has a line for each value that is none.
func Read(into any, given func(name string) []string) error {
	var errs []error
	for _, o := range optionsOf(reflect.ValueOf(into).Elem()) {
		for _, text := range given(o.name) {
			if err := o.set(text); err != nil {
				errs = append(errs, fmt.Errorf("--%s %s: %w", o.name, text, err))
			}
		}
	}
	return errors.Join(errs...)
}

// set takes one value of the option. Only lists take more than one.
func (o option) set(text string) (err error) {
	v := o.value
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch p := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *Agent:
		if *p == nil {
			*p = Agent{}
		}
		(*p)[o.name] = text
	case *string:
		*p = text
	case *[]string:
		*p = append(*p, text)
	case *bool:
		*p, err = strconv.ParseBool(text)
	case *int:
		*p, err = strconv.Atoi(text)
	default:
		return fmt.Errorf("options of type %T are not known", p)
	}
	return err
}

// texts are the option's values, as set takes them; none if it has its zero value.
func (o option) texts() []string {
	if o.value.IsZero() {
		return nil
	}
	switch v := o.value.Interface().(type) {
	case Agent:
		if text, given := v[o.name]; given {
			return []string{text}
		}
		return nil
	case []string:
		return v
	default:
		return []string{fmt.Sprint(reflect.Indirect(o.value))}
	}
}

// Texts returns the values of the options that are given in a struct of options, to which options points, by name and as Read takes them.
func Texts(options any) map[string][]string {
	given := map[string][]string{}
	for _, o := range optionsOf(reflect.ValueOf(options).Elem()) {
		if texts := o.texts(); len(texts) > 0 {
			given[o.name] = texts
		}
	}
	return given
}

// told is what swarmd in a container finds: the arguments and variables of its command, and the files of this host that they name.
type told struct {
	args, vars, files []string

	unseen  bool     // the host's files can't be looked at
	mounted []string // files that the component has otherwise
}

// add gives the options of a struct onward, each by its place. Those that are the host's or the launcher's are left to the caller.
func (t *told) add(options any) error {
	for _, o := range optionsOf(reflect.ValueOf(options).Elem()) {
		for _, text := range o.texts() {
			switch o.place {
			case Onward:
				t.args = append(t.args, "--"+o.name+"="+text)
			case File, Dir:
				if slices.Contains(t.mounted, text) {
					t.args = append(t.args, "--"+o.name+"="+text)
					continue
				}
				path, err := text, error(nil)
				if !t.unseen {
					path, err = o.hostPath(text)
				}
				if err != nil {
					return err
				}
				t.args, t.files = append(t.args, "--"+o.name+"="+path), append(t.files, path)
			case Secret:
				t.hide(o, text)
			case Launcher, Join, Host:
			}
		}
	}
	return nil
}

// hide gives the option onward without its value, and the variable by which it is found. Of an option with one value the variable is enough.
func (t *told) hide(o option, text string) {
	if o.value.Type() == reflect.TypeFor[Agent]() {
		t.vars = append(t.vars, spire.AgentVariable(o.name)+"="+text)
		return
	}
	if o.value.Kind() == reflect.String {
		t.vars = append(t.vars, cmdline.Variable(o.name)+"="+text)
		return
	}
	k, _, _ := strings.Cut(text, "=")
	t.args, t.vars = append(t.args, "--"+o.name+"="+k), append(t.vars, mlVariable+text)
}

func (o option) hostPath(text string) (string, error) {
	if o.place == File {
		return HostFile(o.name, text)
	}
	return HostDir(o.name, text, "directory", readable)
}

// abs is a path of this host as the container has it, "" for none.
func abs(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}
