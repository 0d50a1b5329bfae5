package logpack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/registry"
)

// lastLines is how many lines of a log are asked for.
const lastLines = "50000"

// programNote is said of logs that have what a program printed.
const programNote = "has what the ML program printed, which may be data: look at it before it leaves this host"

// processes takes what the components that run as processes have logged.
func (p *packer) processes(ctx context.Context) error {
	all, err := registry.List(p.cfg.Scope)
	if err != nil {
		return p.add("processes", nil, "", err)
	}
	for _, e := range all {
		base := fmt.Sprintf("processes/%s", plainName(strings.Trim(e.Role+"-"+e.Name, "-")+"-"+strconv.Itoa(e.PID)))
		about, err := json.MarshalIndent(e, "", "  ")
		if err := p.add(base+"/component.json", about, "", err); err != nil {
			return err
		}
		data, err := processLog(ctx, e)
		if err := p.add(base+"/log.txt", data, note(e.Role), err); err != nil {
			return err
		}
	}
	return nil
}

// note is what is to be known of the log of a role.
func note(role string) string {
	if role == "sl" || role == engine.RoleML {
		return programNote
	}
	return ""
}

// processLog returns what a process wrote to its standard error, where that is kept.
func processLog(ctx context.Context, e registry.Entry) ([]byte, error) {
	proc, err := e.Open()
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	stderr := fmt.Sprintf("/proc/%d/fd/2", e.PID)
	target, err := os.Readlink(stderr)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(target, "socket:"):
		if _, err := exec.LookPath("journalctl"); err == nil {
			return tool(ctx, []string{"journalctl", "--no-pager", "-o", "short-iso", "-n", lastLines, "_PID=" + strconv.Itoa(e.PID)})
		}
	case strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/"):
		return tail(stderr)
	}
	return nil, fmt.Errorf("its standard error is not kept: it is %s", target)
}

// containers takes the logs of the containers that are ours, and what they are.
func (p *packer) containers(ctx context.Context) error {
	if p.cfg.Engine == nil {
		return p.add("containers", nil, "", fmt.Errorf("not looked for: %s", p.cfg.NoEngine))
	}
	ours := filters.NewArgs(filters.Arg("label", engine.LabelRole), filters.Arg("label", engine.LabelScope+"="+p.cfg.Scope))
	list, err := p.cfg.Engine.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return p.add("containers", nil, "", engine.Explain(fmt.Errorf("list containers: %w", err)))
	}
	for _, c := range list {
		name := engine.ShortID(c.ID)
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		base := "containers/" + plainName(name)
		about, err := p.inspect(ctx, c.ID)
		if err := p.add(base+"/inspect.json", about, "", err); err != nil {
			return err
		}
		data, err := p.containerLog(ctx, c.ID)
		if err := p.add(base+"/log.txt", data, note(c.Labels[engine.LabelRole]), err); err != nil {
			return err
		}
	}
	return nil
}

// inspect describes a container. Of its variables the names are kept.
func (p *packer) inspect(ctx context.Context, id string) ([]byte, error) {
	c, err := p.cfg.Engine.ContainerInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.Config != nil {
		for i, v := range c.Config.Env {
			name, _, _ := strings.Cut(v, "=")
			c.Config.Env[i] = name
		}
	}
	return json.MarshalIndent(c, "", "  ")
}

func (p *packer) containerLog(ctx context.Context, id string) ([]byte, error) {
	c, err := p.cfg.Engine.ContainerInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := p.cfg.Engine.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Tail: lastLines})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	end := &ending{}
	if c.Config != nil && c.Config.Tty {
		_, err = io.Copy(end, r)
	} else {
		_, err = stdcopy.StdCopy(end, end, r)
	}
	return end.buf.Bytes(), err
}

// ending keeps the last maxPart bytes of what is written, and at most as many before them.
type ending struct{ buf bytes.Buffer }

// Write implements io.Writer.
func (e *ending) Write(b []byte) (int, error) {
	if e.buf.Len() > 2*maxPart {
		e.buf.Next(e.buf.Len() - maxPart)
	}
	return e.buf.Write(b)
}

// plainName is a name in the archive: one that leads nowhere.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name[:min(len(name), 200)])
}
