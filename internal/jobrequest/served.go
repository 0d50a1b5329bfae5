package jobrequest

import (
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// Image is that of a job's containers; empty: it runs as processes. Hosts consent to one image of a job, and have one runtime.
func Image(w *framework.World) (string, error) {
	first := w.Groups[0]
	for _, g := range w.Groups {
		switch {
		case (g.Image == "") != (first.Image == ""):
			return "", errors.New("some of its groups have an image and others none, and a host runs members in containers or as processes: name an image for each group, or for none")
		case g.Image != first.Image:
			return "", fmt.Errorf("group %s has another image than group %s, and hosts consent to one image of a job: make one image of them", g.Name, first.Name)
		}
	}
	return first.Image, nil
}

// Served refuses a job that asks for what no host gives its members in this version, before anybody is asked to consent to it.
func Served(w *framework.World) error {
	j := w.Expanded()
	if j.Network != jobfile.Private && j.Network != jobfile.Host {
		return fmt.Errorf("it asks for the network %s, and this version of swarmd gives members private and host alone", j.Network)
	}
	for _, g := range w.Groups {
		for _, x := range []struct {
			asks bool
			what string
		}{
			{j.Artifacts.To != "", "to under artifacts"},
			{g.Resources.Disk > 0, "disk under resources"},
		} {
			if x.asks {
				return fmt.Errorf("it asks for %s, which this version of swarmd gives to no member: leave that out, and have it in the image", x.what)
			}
		}
	}
	_, err := Image(w)
	return err
}
