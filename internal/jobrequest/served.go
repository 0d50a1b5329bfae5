package jobrequest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
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
	j := w.Expanded()
	if j.Network != jobfile.Private && j.Network != jobfile.Host {
		return fmt.Errorf("it asks for the network %s, and this version of swarmd gives members private and host alone", j.Network)
	}
	_, err := Images(w)
	return err
}
