package jobrequest

import (
	"errors"
	"slices"

	"github.com/swarmd/swarmd/internal/framework"
)

// Images are those of a job's containers, sorted, each once; none: it runs as processes. Hosts have one runtime, and so have jobs.
func Images(w *framework.World) (all []string, err error) {
	first := w.Groups[0]
	for _, g := range w.Groups {
		switch {
		case (g.Image == "") != (first.Image == ""):
			return nil, errors.New("some of its groups have an image and others none, and a host runs members in containers or as processes: name an image for each group, or for none")
		case g.Image != "" && !slices.Contains(all, g.Image):
			all = append(all, g.Image)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Served refuses a job that asks for what no host gives its members in this version, before anybody is asked to consent to it.
func Served(w *framework.World) error {
	_, err := Images(w)
	return err
}
