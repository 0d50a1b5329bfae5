package framework_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// Whatever job a file has: it is refused, or the body of its task is of the same job, and hosts read the same world of it.
func FuzzExpanded(f *testing.F) {
	f.Add([]byte("name: x\ncommand: a\nreplicas: 3\n"))
	f.Add([]byte("name: x\nimage: i\ngroups: [{name: r, args: [a]}, {name: s, replicas: 3, min_success: 2, command: b, env: {A: 1}}]\n"))
	f.Add([]byte("name: d\nframework: dask\ncommand: a.py\nargs: [--a, 1]\nready: {port: 1}\ngroups: [{name: worker, replicas: 2, args: [--a, 1], ready: {port: 1}}]\n"))
	f.Add([]byte("name: t\nframework: tensorflow\ncommand: a.py\ngroups: [{name: ps}, {name: chief}, {name: worker, replicas: 2, env: {WORKER_PORT: 1}}]\n"))
	f.Add([]byte("name: t\nframework: tensorflow\ncommand: a.py\nreplicas: 3\n"))
	f.Add([]byte("name: r\nframework: ray\ncommand: a.py\nargs: [--a, 1]\ngroups: [{name: head, args: [--a, 1]}, {name: worker, replicas: 2, env: {RAY_PORT: 7000}}]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := jobfile.Read("f", raw)
		if err != nil || j.Folder != "" {
			return
		}
		w, err := framework.WorldOf(j)
		if err != nil {
			return
		}
		body, err := w.Expanded().Encode()
		if err != nil {
			return // it is larger as it is written
		}
		read, err := jobfile.Decode(body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if d := cmp.Diff(w.Expanded(), read, cmpopts.IgnoreFields(jobfile.Job{}, "AnyNetwork"), cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s\n%s", d, body)
		}
		again, err := framework.WorldOf(read)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if d := cmp.Diff(w.Groups, again.Groups, cmpopts.EquateEmpty()); d != "" || again.Start != w.Start || again.DoneWhen != w.DoneWhen {
			t.Fatalf("it is another world: %s\n%s", d, body)
		}
	})
}
