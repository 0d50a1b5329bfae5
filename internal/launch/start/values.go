package start

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docker/go-units"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/shellwords"
)

// Port is a TCP port; 0: the default.
type Port int

// UnmarshalText reads a port.
func (p *Port) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > 65535 {
		return errors.New("want a port from 1 to 65535")
	}
	*p = Port(n)
	return nil
}

// Or is the port, or if it is not given another.
func (p Port) Or(otherwise Port) Port {
	if p == 0 {
		return otherwise
	}
	return p
}

// Size is a number of bytes; 0: none is given.
type Size int64

// UnmarshalText reads a size such as 8g.
func (s *Size) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	n, err := units.RAMInBytes(string(text))
	if err != nil || n <= 0 {
		return errors.New("want a size such as 512m or 8g")
	}
	*s = Size(n)
	return nil
}

// String is the size as UnmarshalText reads it.
func (s Size) String() string {
	for i, unit := range "gmk" {
		if one := Size(1) << (30 - 10*i); s >= one && s%one == 0 {
			return fmt.Sprintf("%d%c", s/one, unit)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// CPUs is a number of processors; 0: no limit.
type CPUs float64

// UnmarshalText reads a number of processors such as 1.5.
func (c *CPUs) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0.01 && f <= 1e5) {
		return errors.New("want a number of CPUs such as 1.5")
	}
	*c = CPUs(f)
	return nil
}

// Count is a number of things, of which there is one at least; 0: the default.
type Count int64

// UnmarshalText reads a count.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return errors.New("want 1 or more")
	}
	*c = Count(n)
	return nil
}

// longest bounds what an option may ask for, as the swarm does.
const longest = 7 * 24 * time.Hour

// Wait is a time that something is waited for; 0: the default.
type Wait time.Duration

// UnmarshalText reads a time such as 90s, a millisecond at least.
func (w *Wait) UnmarshalText(text []byte) (err error) {
	*w, err = duration[Wait](text, time.Millisecond)
	return err
}

func (w Wait) String() string { return time.Duration(w).String() }

// Limit is a time after which something ends; 0: never, or at once.
type Limit time.Duration

// UnmarshalText reads a time such as 90s.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	*l, err = duration[Limit](text, 0)
	return err
}

func (l Limit) String() string { return time.Duration(l).String() }

func duration[T ~int64](text []byte, least time.Duration) (T, error) {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < least || d > longest {
		return 0, errors.New("want a time such as 90s or 5m, a week at most")
	}
	return T(d), nil
}

// Seconds is the wait, or if it is not given that of one of the original's variables, which counts in seconds.
func (w Wait) Seconds(variable, text string) (time.Duration, error) {
	if w > 0 || text == "" {
		return time.Duration(w), nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || time.Duration(n)*time.Second > longest {
		return 0, fmt.Errorf("%s %q: want seconds, a week at most", variable, text)
	}
	return time.Duration(n) * time.Second, nil
}

// Words are a command, or arguments of one.
type Words []string

// UnmarshalText divides text into words as a shell does: at blanks, except between single or double quotes and behind a backslash.
// Nothing is expanded.
func (w *Words) UnmarshalText(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8: other bytes would be changed on their way")
	}
	list, err := shellwords.Split(string(text))
	*w = list
	return err
}

// String is the words as UnmarshalText reads them.
func (w Words) String() string {
	var quoted []string
	for _, word := range w {
		if word == "" || strings.ContainsAny(word, " \t\r\n'\"\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}

var (
	gpuName       = regexp.MustCompile(`^(\d{1,4}(:\d{1,4})?|(GPU|MIG)-[0-9A-Za-z/-]{1,100})$`)
	containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)
)

// gpus reads --gpu: "" none, "all", or a list of indexes (0,2) or UUIDs.
func gpus(given string) (string, error) {
	if given == "" || strings.EqualFold(given, "all") {
		return strings.ToLower(given), nil
	}
	list := strings.Split(given, ",")
	for i, g := range list {
		list[i] = strings.TrimSpace(g)
		if !gpuName.MatchString(list[i]) {
			return "", fmt.Errorf("--gpu %s: want all, or indexes from 0 on such as 0,2", given)
		}
		if slices.Contains(list[:i], list[i]) {
			return "", fmt.Errorf("--gpu %s: %s is named twice", given, list[i])
		}
	}
	return strings.Join(list, ","), nil
}

// dockerGPUs reads GPUs as docker run --gpus takes them, all, a number of them, or device=0,2 with or without quotes, and returns them as
// --gpu does.
func dockerGPUs(given string) (string, error) {
	list, named := strings.CutPrefix(strings.Trim(given, `"'`), "device=")
	if named || strings.EqualFold(list, "all") {
		return list, nil
	}
	n, err := strconv.Atoi(list)
	if err != nil || n < 1 || n > 64 {
		return "", fmt.Errorf("--ml-gpus %s: want all, a number of GPUs, or device=0,2", given)
	}
	var indexes []string
	for i := range n {
		indexes = append(indexes, strconv.Itoa(i))
	}
	return strings.Join(indexes, ","), nil
}

// checkEnv holds that each variable has a value.
func checkEnv(option string, given []string) error {
	for _, kv := range given {
		if k, _, ok := strings.Cut(kv, "="); k == "" || !ok {
			return fmt.Errorf("--%s %s: want K=V", option, kv)
		}
	}
	return nil
}

func checkNames(node, container string) error {
	if err := naming.CheckNode(node); err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	return checkName("name", container)
}

func checkName(option, name string) error {
	if name != "" && !containerName.MatchString(name) {
		return fmt.Errorf("--%s %s: no name for a container; want letters, digits and _ . -, two at least", option, name)
	}
	return nil
}

// checkLabels keeps users from saying what only swarmd may say.
func checkLabels(option string, labels []string) error {
	for _, l := range labels {
		if strings.HasPrefix(l, "io.swarmd.") {
			return fmt.Errorf("--%s %s: labels that begin with io.swarmd. are swarmd's own: choose another name", option, l)
		}
	}
	return nil
}

func scope(env Env) string { return engine.Scope(env.Getenv) }
