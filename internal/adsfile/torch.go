package adsfile

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// torchRuntime reads ADS's PyTorch jobs, whose command begins with a launcher.
func torchRuntime(r *reader, f *fields) {
	j := r.job
	j.Framework = jobfile.PyTorch
	switch {
	case f.given("git"):
		if g := r.fields(f.Get("git", 0), "url", "branch", "commit", "secretId", "gitSecretId"); g != nil {
			r.source(g, "url")
			g.ignore("the folder travels as it is now: check out what is to run", "branch", "commit", "secretId", "gitSecretId")
		}
	case f.given("source"):
		r.source(f, "source")
	case f.given("scriptPathURI"):
		r.source(f, "scriptPathURI")
	}
	if f.given("inputs") {
		f.refuse("inputs", "are copied by nobody before the start: have each host's owner put them into a folder, and mount it with volumes in a job file")
	}
	if f.given("dependencies") {
		f.ignore("nothing is installed at the start: have it in the image, or in the hosts' Python", "dependencies")
	}
	if v := f.Get("useDeepspeed", 0); !v.Null() && v.Yes() {
		f.refuse("useDeepspeed", "starts the others by ssh, which members have not: launch with torchrun, and call deepspeed.init_distributed in the program")
	}
	r.inFolder(f)
	r.outputs(f)
	launchCommand(r, f.Get("command", yamlfile.Broken))
	j.Args = commandWords(f.Get("args", 0))
}

// operators are words by which a shell does more than run one program.
var operators = []string{"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"}

// launchCommand takes the command of a PyTorch job.
func launchCommand(r *reader, v yamlfile.Value) {
	j := r.job
	all := commandWords(v)
	if len(all) == 0 {
		if !r.Broken() {
			v.Find(yamlfile.Broken, "%s is empty: write a command, as torchrun train.py", v.Name)
		}
		return
	}
	if slices.ContainsFunc(all, func(w string) bool {
		return slices.Contains(operators, w) || strings.HasSuffix(w, ";") || strings.Contains(w, "$(")
	}) {
		if j.Image == "" {
			v.Find(yamlfile.Broken, "%s needs a shell, and a host runs no shell as a process: write it into a file of the source, or name an image with --image NAME", v.Name)
			return
		}
		j.Command = []string{"sh", "-c", lines(v)}
		return
	}
	switch path.Base(all[0]) {
	case "deepspeed":
		v.Find(yamlfile.Broken, "%s is deepspeed, which starts the others by ssh, which members have not: launch with torchrun, and call deepspeed.init_distributed in the program", v.Name)
	case "accelerate":
		if len(all) > 1 && all[1] == "launch" {
			all = slices.Concat(all[:2], accelerate(j, all), all[2:])
			v.Find(yamlfile.Noted, "%s: accelerate launch is told how many members there are, and where the first is, unless it says so itself", v.Name)
		}
	}
	j.Command = all
}

// accelerate are the options that accelerate launch has not been given.
func accelerate(j *jobfile.Job, given []string) (all []string) {
	each := max(1, j.Resources.GPU)
	for _, o := range []struct{ name, value string }{
		{"--num_processes", strconv.Itoa(each * j.Replicas)},
		{"--num_machines", "${NODE_COUNT}"},
		{"--machine_rank", "${NODE_RANK}"},
		{"--main_process_ip", "${MASTER_ADDR}"},
		{"--main_process_port", "${MASTER_PORT}"},
	} {
		if !slices.ContainsFunc(given, func(w string) bool { return w == o.name || strings.HasPrefix(w, o.name+"=") }) {
			all = append(all, o.name, o.value)
		}
	}
	return all
}
