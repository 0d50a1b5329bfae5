package adsfile

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// fixedDask are options of Dask's programs that say where they are found, which the job says.
var fixedDask = []string{"--port", "--dashboard-address", "--pid-file", "--scheduler-file", "--host", "--interface", "--name"}

// schedulerOptions are those of the scheduler.
func schedulerOptions(c *cluster) []string { return withoutFixed(c.main) }

// workerOptions are those of workers, with what images of ADS make of variables.
func workerOptions(r *reader, c *cluster) []string {
	options := withoutFixed(c.worker)
	for i, o := range options {
		if o == "--nprocs" || strings.HasPrefix(o, "--nprocs=") { // what it was called before 2021.10
			options[i] = "--nworkers" + strings.TrimPrefix(o, "--nprocs")
		}
	}
	env := jobfile.WithVars(jobfile.WithVars(c.env, c.program.env), c.worker.env)
	for _, x := range []struct{ variable, option string }{{"nprocs", "--nworkers"}, {"nthread", "--nthreads"}, {"death_timeout", "--death-timeout"}} {
		value, is := lookup(env, x.variable)
		if is && value != "" && !slices.ContainsFunc(options, func(o string) bool { return o == x.option || strings.HasPrefix(o, x.option+"=") }) {
			options = append(options, x.option, value)
			sayOf(r, c, x.variable, yamlfile.Noted, "becomes %s %s of each worker", x.option, yamlfile.Excerpt(value))
		}
	}
	return options
}

// withoutFixed leaves out options that say where something is.
func withoutFixed(of role) (left []string) {
	options := of.options
	for i := 0; i < len(options); i++ {
		name, _, joined := strings.Cut(options[i], "=")
		switch {
		case strings.HasPrefix(name, "--tls-"):
			of.at.Find(yamlfile.Broken, "%s has %s: members speak without TLS: leave it out, and have them on one host, in a network of their own (network: private)", of.at.Name, name)
			return nil
		case slices.Contains(fixedDask, name):
			if !joined && i+1 < len(options) && !strings.HasPrefix(options[i+1], "--") {
				i++
			}
			of.at.Find(yamlfile.Noted, "%s: %s is ignored: the scheduler is at port 8786, its pages at 8787, each member at its own address", of.at.Name, name)
		default:
			left = append(left, options[i])
		}
	}
	return left
}
