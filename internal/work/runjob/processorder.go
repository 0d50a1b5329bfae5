package runjob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/work/jobcommand"
	"github.com/swarmd/swarmd/internal/work/taskenv"
	"github.com/swarmd/swarmd/python"
)

// ownVariable names the directory of a member to each of its processes, by which they are found when their keeper was killed.
const ownVariable = "SWARM_MEMBER_DIR"

// order is the input of the member's keeper.
func (p *Processes) order(ctx context.Context, m member, dir string) (o order, err error) {
	if m.group.Image != "" {
		return o, errors.New("it runs in a container, and this host runs jobs as processes: leave image out, or start this SWOP with --ml-runtime docker")
	}
	if err := jobcommand.CheckEnv(m.group, true); err != nil {
		return o, err
	}
	source := filepath.Join(dir, sourceDir)
	o = order{
		Name: fmt.Sprintf("job %s, group %s, rank %d", m.job.Name, m.group.Name, m.program.Rank), Named: m.placed.Members[m.program.Rank].Name,
		Dir: source, Grace: m.job.Grace, Ready: questionOf(m),
		Lease: filepath.Join(p.Dir, leaseFile), Secrets: p.Goods.Secrets, AsEnv: asEnv(m.group.Secrets),
	}
	if m.program.Starter.Itself {
		o.Leads = m.placed.Members[m.program.Rank].Address
	}
	if _, err := o.environ(); err != nil { // the keeper reads them again: they are in no file but the owner's
		return o, err
	}
	o.Ready.Here = true
	extra := make([]string, 0, len(m.program.Env)+1)
	for _, v := range m.program.Env {
		extra = append(extra, v.Name+"="+v.Value)
	}
	extra = append(extra, ownVariable+"="+dir)
	if id := os.Getenv(localVariable); id != "" {
		extra = append(extra, localVariable+"="+id)
	}
	environ := launch.EnvConfig{Inherit: taskenv.Inherited(os.Environ()), Extra: extra}
	if m.job.Beside.SL != "" { // the ranks of an SL take part in its swarm
		if environ.Package.Path, err = launch.Extract(python.Source(), filepath.Join(p.Dir, pythonDir)); err != nil {
			return o, err
		}
	}
	if o.Env, err = launch.ProgramEnv(environ); err != nil {
		return o, err
	}
	words, err := p.resolve(ctx, m, m.program.Command, source)
	if err != nil {
		return o, err
	}
	front, err := meets(m, p.Swarmd)
	if err != nil {
		return o, err
	}
	words = append(front, words...)
	o.Path, o.Args = words[0], words[1:]
	if len(m.program.Starts) > 0 {
		if words, err = p.resolve(ctx, m, m.program.Starts, source); err != nil {
			return o, err
		}
		o.Args = append(o.Args, words...)
	}
	if len(o.Ready.Command) > 0 {
		if o.Ready.Command, err = p.resolve(ctx, m, o.Ready.Command, source); err != nil {
			return o, fmt.Errorf("its ready.command: %w", err)
		}
	}
	return o, nil
}

// resolve finds the program of a command on this host. It blocks while Pythons are tried.
func (p *Processes) resolve(ctx context.Context, m member, words []string, source string) ([]string, error) {
	c, err := jobcommand.ForHost(words, m.job.Source)
	if err != nil {
		return nil, err
	}
	if c.Python == "" {
		return append([]string{filepath.Join(source, filepath.FromSlash(c.File))}, c.Words...), nil
	}
	module, remedy := needs(m.job.Framework)
	if module == "" && c.File != "" {
		module, remedy = launch.Framework(launch.PlatformOf(filepath.Join(source, filepath.FromSlash(c.File))))
	}
	explicit := ""
	if c.Python != "python" && c.Python != "python3" {
		explicit = c.Python
	}
	python, err := launch.FindImporting(ctx, module, remedy, explicit, p.Getenv)
	if err != nil {
		return nil, err
	}
	return append([]string{python}, c.Words...), nil
}

// needs is the module that programs of a framework import, and how a host gets it; empty: none.
func needs(framework string) (module, remedy string) {
	switch framework {
	case jobfile.PyTorch:
		return launch.Framework("PYT")
	case jobfile.TensorFlow:
		return launch.Framework("TF")
	case jobfile.Dask:
		return "distributed", "apt-get install python3-distributed, or pip install distributed"
	case jobfile.Horovod:
		return "horovod", "pip install horovod"
	case jobfile.Ray:
		return "ray", "pip install ray"
	}
	return "", ""
}
