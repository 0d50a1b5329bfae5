package adsfile

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// torchRuntime reads ADS's PyTorch jobs, whose command begins with a launcher.
func torchRuntime(r *reader, f *fields) {
	r.job.Framework = jobfile.PyTorch
	file := torchSource(r, f)
	if f.given("inputs") {
		f.refuse("inputs", "are copied by nobody before the start: have each host's owner put them into a folder, and mount it with volumes in a job file")
	}
	if f.given("dependencies") {
		f.ignore("nothing is installed at the start: have it in the image, or in the hosts' Python", "dependencies")
	}
	if v := f.Get("deepspeed", 0); !v.Null() && v.Yes() {
		f.refuse("deepspeed", byDeepspeed)
	}
	r.inFolder(f)
	r.outputs(f)
	if file != "" && !f.given("command") {
		r.job.Command, r.job.Args = []string{"torchrun", file}, arguments(f.Get("args", 0))
		return
	}
	launchCommand(r, f.Get("command", yamlfile.Broken))
	if f.given("entryPoint") {
		f.ignore("the command says what runs", "entryPoint")
	}
	f.ignore("ADS leaves them out where there is a command: write them into the command", "args")
}

const byDeepspeed = "starts the others by ssh, which members have not: launch with torchrun, and call deepspeed.init_distributed in the program"

// torchSource takes where the program is, and returns the file that torchrun starts where there is no command.
func torchSource(r *reader, f *fields) string {
	if f.given("git") {
		if g := r.fields(f.Get("git", 0), "url", "branch", "commit", "secretId", "gitSecretId"); g != nil {
			r.source(g, "url")
			g.ignore("the folder travels as it is now: check out what is to run", "branch", "commit", "secretId", "gitSecretId")
		}
		if f.given("entryPoint") && !f.given("command") {
			runsFile(r, f)
		}
		return r.entry
	}
	uri := "source"
	if !f.given(uri) {
		uri = "scriptPathURI"
	}
	switch {
	case !f.given(uri):
		return text(f.Get("entryPoint", 0))
	case !f.given("command") || programFile(text(f.Get(uri, 0))):
		return r.script(f, uri)
	}
	r.source(f, uri)
	fromFolder(r, f, uri)
	return ""
}

// assignment is a word by which a shell sets a variable of the program behind it.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// needsShell reports whether a command is more than one program with its words: ADS runs all of them by a shell. ${NAME} is filled in without one.
func needsShell(command string) bool {
	command = strings.TrimSpace(command)
	if assignment.MatchString(command) {
		return true
	}
	var quote byte
	for i := 0; i < len(command); i++ {
		c := command[i]
		next := command[i+1:]
		switch {
		case c == '\\' && quote != '\'':
			if i++; strings.HasPrefix(next, "$") || strings.HasPrefix(next, "\n") {
				return true // a $ that is none of a variable, or a line that goes on
			}
		case quote == 0 && (c == '\'' || c == '"'), quote != 0 && c == quote:
			quote ^= c
		case quote == '\'':
			if c == '$' && strings.HasPrefix(next, "{") {
				return true
			}
		case c == '`', c == '$' && !strings.HasPrefix(next, "{"), quote == 0 && strings.IndexByte("*?[~<>|&;()#\n", c) >= 0:
			return true
		}
	}
	return false
}

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
	if i := slices.IndexFunc(all, func(w string) bool { return r.base != "" && strings.HasPrefix(path.Clean(w), r.base+"/") }); i >= 0 {
		v.Find(yamlfile.Broken, "%s has %s, and the working directory is the folder %s itself: write paths as it has them, and workingDir: %s", v.Name, yamlfile.Excerpt(all[i]), r.base, r.base)
	}
	at := slices.IndexFunc(all, func(w string) bool { return slices.Contains([]string{"accelerate", "deepspeed"}, path.Base(w)) })
	switch {
	case v.Kind() != "a list" && needsShell(lines(v)):
		if at >= 0 {
			v.Find(yamlfile.Broken, "%s has %s behind a shell, where it is not told of other members: write it alone, variables under env, and what is done beside it into the program", v.Name, path.Base(all[at]))
			return
		}
		j.Command = inShell(r, v)
	case path.Base(all[0]) == "deepspeed":
		v.Find(yamlfile.Broken, "%s is deepspeed, which "+byDeepspeed, v.Name)
	case at >= 0 && slices.Contains(all, "--use_deepspeed"):
		v.Find(yamlfile.Broken, "%s has --use_deepspeed, which "+byDeepspeed, v.Name)
	case path.Base(all[0]) == "accelerate" && len(all) > 1 && all[1] == "launch":
		j.Command = slices.Concat(all[:2], accelerate(all), all[2:])
		v.Find(yamlfile.Noted, "%s: accelerate launch is told how many members there are, and where the first is, unless it says so itself", v.Name)
	default:
		j.Command = all
	}
}

// inShell is a command that a shell runs, in which it alone fills variables in.
func inShell(r *reader, v yamlfile.Value) []string {
	if r.job.Image == "" {
		v.Find(yamlfile.Broken, "%s needs a shell, and a host runs no shell as a process: write variables under env, and the rest into a file of the source, or name an image with --image NAME", v.Name)
		return nil
	}
	v.Find(yamlfile.Noted, "%s is run by sh -c of the image", v.Name)
	return []string{"sh", "-c", literal(lines(v))}
}

// accelerate are the options that accelerate launch has not been given.
func accelerate(given []string) (all []string) {
	for _, o := range []struct{ name, value string }{
		{"--num_processes", "${SWARM_NUM_PROCESSES}"},
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
