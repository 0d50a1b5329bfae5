package engine

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Volume is a mount as users of `docker run -v` write it: SOURCE:TARGET[:MODE].
type Volume struct {
	Source   string // as given: a path, or the name of a volume
	Target   string // absolute, clean, below /
	Mode     string // as given: ro, rw, z and Z with commas between them, or empty
	ReadOnly bool
}

// volumeName is the name of a volume in the original's scripts; anything else is a path.
var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// Named reports whether Source names a volume of the engine.
func (v Volume) Named() bool { return volumeName.MatchString(v.Source) }

// ParseVolume reads one. It looks at no file. The error says what is wrong, but not with which option.
func ParseVolume(text string) (Volume, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" || strings.ContainsRune(text, 0) {
		return Volume{}, errors.New("want HOST-PATH:CONTAINER-PATH or HOST-PATH:CONTAINER-PATH:ro")
	}
	v := Volume{Source: parts[0], Target: path.Clean(parts[1])}
	if !path.IsAbs(v.Target) {
		return v, fmt.Errorf("%s is no absolute path in the container: it must begin with /", parts[1])
	}
	if v.Target == "/" {
		return v, errors.New("the container's own root can't be replaced: name a directory below /")
	}
	if len(parts) == 2 {
		return v, nil
	}
	v.Mode = parts[2]
	for mode := range strings.SplitSeq(v.Mode, ",") {
		if !slices.Contains([]string{"ro", "readonly", "rw", "z", "Z"}, mode) {
			return v, fmt.Errorf("want :ro or :rw, not :%s", v.Mode)
		}
		v.ReadOnly = v.ReadOnly || mode == "ro" || mode == "readonly"
	}
	return v, nil
}
