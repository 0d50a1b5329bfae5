package jobcommand_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work/jobcommand"
)

// TestFits: what no host runs is known before anybody is asked about it, of each group.
func TestFits(t *testing.T) {
	for _, tt := range []struct {
		name, job string
		container bool
		want      string // in the error; empty: it fits
	}{
		{name: "a file", job: "command: p.py"},
		{name: "with variables", job: "command: 'p.py ${SWARM_MAIN_IP} ${WHERE}'\nenv: {WHERE: '${SWARM_WORK_DIR}/x'}\nwork_dir: w"},
		{name: "Dask", job: "framework: dask\ncommand: p.py\nreplicas: 3"},
		{name: "TensorFlow", job: "framework: tensorflow\ncommand: p.py\nreplicas: 3"},
		{name: "Ray", job: "framework: ray\ncommand: p.py\nreplicas: 3"},
		{name: "what Ray starts", job: "framework: ray\ncommand: rm -rf /\nreplicas: 3", want: `job x, group head: it runs "rm", and a process runs Python`},
		{name: "a text", job: "command: [python3, -c, 'print(1)']"},
		{name: "no text", job: "command: [python3, -c]", want: `it gives python3 "-c", and a process runs`},
		{name: "torchrun", job: "framework: pytorch\ncommand: torchrun p.py"},
		{name: "a program of the host", job: "command: rm -rf /", want: `job x, group node: it runs "rm", and a process runs Python and executable files of the job's source alone`},
		{name: "in a container", job: "command: rm -rf /\nimage: i", container: true},
		{name: "the image's own", job: "image: i", container: true},
		{name: "of the second group", job: "groups: [{name: r, replicas: 2, command: p.py}, {name: s, command: p.sh}]", want: "group s: it runs p.sh, which is not executable"},
		{name: "a file that is not there", job: "command: q.py", want: "it gives python3 \"q.py\", and a process runs files of the job's source, modules (-m NAME) and texts (-c TEXT) alone"},
		{name: "no file", job: "command: python3", want: "it gives python3 nothing, and"},
		{name: "a question", job: "command: p.py\nready: {command: test -f /x}", want: `its ready.command: it runs "test"`},
		{name: "what loads code", job: "command: p.py\nenv: {LD_PRELOAD: /x}", want: `its env sets "LD_PRELOAD"`},
		{name: "a secret that loads code", job: "command: p.py\nsecrets: [LD_PRELOAD]", want: `its env sets "LD_PRELOAD"`},
		{name: "a secret as a file", job: "command: p.py\nsecrets: [{name: LD_PRELOAD, as: file}]"},
		{name: "where a secret's file is", job: "command: 'p.py ${SWARM_SECRETS}/KEY'\nsecrets: [{name: KEY, as: file}]"},
		{name: "where it is, in a group without one", job: "groups: [{name: r, command: p.py, secrets: [{name: KEY, as: file}]}, {name: s, command: 'p.py ${SWARM_SECRETS}/KEY'}]", want: "group s: command has ${SWARM_SECRETS}, which nothing sets here"},
		{name: "what loads code in a container", job: "image: i\nenv: {LD_PRELOAD: /x}", container: true},
		{name: "GPUs", job: "image: i\nenv: {CUDA_VISIBLE_DEVICES: '0'}", container: true, want: "says which GPUs"},
		{name: "a variable that nothing sets", job: "command: 'p.py ${TYPO}'", want: "command has ${TYPO}, which nothing sets here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, err := jobfile.Read("f", []byte("name: x\n"+tt.job+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			j.Source = []jobfile.File{{Path: "p.py"}, {Path: "p.sh"}}
			w, err := framework.WorldOf(j)
			if err != nil {
				t.Fatal(err)
			}
			err = jobcommand.Fits(w, !tt.container)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
