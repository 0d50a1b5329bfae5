package jobfile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// TestReadVolumes: what is said in another place than a file is read as in one.
func TestReadVolumes(t *testing.T) {
	all, err := jobfile.ReadVolumes([]string{"data:/data", "out:/out:rw"})
	if diff := cmp.Diff([]jobfile.Volume{{Name: "data", Target: "/data"}, {Name: "out", Target: "/out", Write: true}}, all); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range [][]string{{"data"}, {"/data:/data"}, {"data:/d:rx"}, {"data:d"}, {"data:/d", "out:/d"}, {"a\nb:/d"}, {""}, {"*x"}} {
		if all, err := jobfile.ReadVolumes(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, all)
		}
	}
	if all, err := jobfile.ReadVolumes(nil); err != nil || all != nil {
		t.Errorf("of nothing: %v, %v", all, err)
	}
}

func TestOverride(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		over       jobfile.Overrides
		want       []jobfile.Change
	}{
		{"nothing", whole, jobfile.Overrides{}, nil},
		{
			"a job without groups", "name: x\nimage: i:1\ncommand: a\nenv: {A: 1}\nresources: {cpu: 1, gpu: 1}\n",
			jobfile.Overrides{Env: []string{"A=2", "B=x=y"}, Args: []string{"--lr", "two words"}, Image: "i:2", Replicas: []string{"4"}, Resources: []string{"cpu=1.5,memory=2GB"}, Timeout: "6h"},
			[]jobfile.Change{
				{"image", "i:1", "i:2"},
				{"args", "", `["--lr" "two words"]`},
				{"env.A", "1", "2"},
				{"env.B", "", "x=y"},
				{"replicas", "1", "4"},
				{"resources", "cpu=1,gpu=1", "cpu=1.5,gpu=1,memory=2GB"},
				{"timeout", "30d", "6h"},
			},
		},
		{
			"groups", "name: x\nimage: i:1\ngroups: [{name: a}, {name: b, image: i:2, env: {A: b}}]\n",
			jobfile.Overrides{Env: []string{"A=2"}, Image: "i:2", Replicas: []string{"b=3"}},
			[]jobfile.Change{{"a.image", "i:1", "i:2"}, {"a.env.A", "", "2"}, {"b.env.A", "b", "2"}, {"b.replicas", "1", "3"}},
		},
		{
			"dask: the program's arguments are the job's", "name: x\nframework: dask\ncommand: a.py\ngroups: [{name: scheduler}, {name: worker, args: [--nthreads, 2]}]\n",
			jobfile.Overrides{Args: []string{"--cv", "5"}},
			[]jobfile.Change{{"args", "", `["--cv" "5"]`}},
		},
		{"a network", "name: x\nimage: i\n", jobfile.Overrides{Network: "host"}, []jobfile.Change{{"network", "private", "host"}}},
		{"the same", "name: x\nimage: i\n", jobfile.Overrides{Image: "i", Replicas: []string{"1"}, Timeout: "720h"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := read(t, tt.file)
			was := j.Text()
			got, changes, err := j.Override(tt.over)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, changes); d != "" {
				t.Error(d)
			}
			if j.Text() != was {
				t.Errorf("the job itself changed: %s", cmp.Diff(was, j.Text()))
			}
			if (len(tt.want) > 0) != (got.Text() != was) {
				t.Errorf("changes %v, and the job is\n%s", changes, got.Text())
			}
			if d := cmp.Diff(got, read(t, got.Text()), asWritten); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefusesBadOverrides(t *testing.T) {
	const groups = "name: x\nimage: i\ngroups: [{name: a, replicas: 3, min_success: 2}, {name: b}]\n"
	for _, tt := range []struct {
		file string
		over jobfile.Overrides
		want string
	}{
		{groups, jobfile.Overrides{Replicas: []string{"3"}}, "the job has groups: write GROUP=N, as a=2"},
		{groups, jobfile.Overrides{Replicas: []string{"c=3"}}, `the job has no group "c": did you mean a?`},
		{groups, jobfile.Overrides{Replicas: []string{"a=1"}}, `with what was said: groups[0].min_success is a number "2": give a number from 1 to 1`},
		{groups, jobfile.Overrides{Replicas: []string{"a=1024"}}, "with what was said: the groups have 1025 replicas together, at most 1024 are placed"},
		{"name: x\n", jobfile.Overrides{Replicas: []string{"a=3"}}, `replicas of "a": the job has no groups: write the number alone`},
		{"name: x\n", jobfile.Overrides{Replicas: []string{"many"}}, `replicas "many": give a number from 1 to 1024`},
		{"name: x\n", jobfile.Overrides{Env: []string{"A"}}, `the variable "A" is not known: write NAME=VALUE`},
		{"name: x\n", jobfile.Overrides{Env: []string{"A=${"}}, `with what was said: env.A is "${": it has ${ without a name and }: write ${NAME}, or $$ for a $ of the program's own`},
		{"name: x\n", jobfile.Overrides{Env: []string{"A=\u202ex"}}, `with what was said: env.A has the control character '\u202e': leave it out`},
		{"name: x\n", jobfile.Overrides{Env: []string{"A=<PROJECT>"}}, "with what was said: env.A holds the placeholder <PROJECT>: put its value in"},
		{"name: x\n", jobfile.Overrides{Image: "two words"}, `with what was said: image is "two words": use the name of an image, as torch:2 or with its digest`},
		{"name: x\n", jobfile.Overrides{Network: "private"}, "with what was said: network is private, and a process is in that of its host: write host, or name an image for each group"},
		{"name: x\n", jobfile.Overrides{Timeout: "31d"}, `timeout "31d": give a time from 1s to 30d, as 6h or 2d`},
		{"name: x\n", jobfile.Overrides{Resources: []string{"cpu"}}, `the resource "cpu" is not known: write NAME=VALUE, as cpu=2 or memory=4GB`},
		{"name: x\n", jobfile.Overrides{Resources: []string{"cpus=2"}}, "unknown field cpus in resources: did you mean cpu?"},
		{"name: x\n", jobfile.Overrides{Resources: []string{"memory=2"}}, `resources.memory is "2": write a size with its unit, as 512MB, 4GB or 1.5GiB`},
	} {
		if _, _, err := read(t, tt.file).Override(tt.over); fmt.Sprint(err) != tt.want {
			t.Errorf("%+v\ngot  %v\nwant %s", tt.over, err, tt.want)
		}
	}
}

// What the file does not say is as it would be in a file with what was said, and what it says stays.
func TestOverrideKeepsWhatIsNotSaid(t *testing.T) {
	for _, tt := range []struct {
		file     string
		over     jobfile.Overrides
		network  string
		succeeds int // of the first group
	}{
		{"name: x\ncommand: a\n", jobfile.Overrides{}, jobfile.Host, 0},
		{"name: x\ncommand: a\n", jobfile.Overrides{Image: "i"}, jobfile.Private, 0},
		{"name: x\ncommand: a\nnetwork: host\n", jobfile.Overrides{Image: "i"}, jobfile.Host, 0},
		{"name: x\nimage: i\n", jobfile.Overrides{Image: "j"}, jobfile.Private, 0},
		{"name: x\ngroups: [{name: g, command: a}, {name: h, image: i}]\n", jobfile.Overrides{Image: "i"}, jobfile.Private, 0},
		{"name: x\ngroups: [{name: g, command: a, replicas: 3, min_success: 3}]\n", jobfile.Overrides{Replicas: []string{"g=5"}}, jobfile.Host, 3},
		{"name: x\ngroups: [{name: g, command: a, replicas: 3, min_success: all}]\n", jobfile.Overrides{Replicas: []string{"g=5"}}, jobfile.Host, 0},
	} {
		j, _, err := read(t, tt.file).Override(tt.over)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := j.Override(jobfile.Overrides{})
		if err != nil || j.Network != tt.network || again.Network != tt.network {
			t.Errorf("%s with %+v: network %s, %s, want %s; %v", tt.file, tt.over, j.Network, again.Network, tt.network, err)
		}
		if len(j.Groups) > 0 && j.Groups[0].MinSuccess != tt.succeeds {
			t.Errorf("%s with %+v: %d have to succeed, want %d", tt.file, tt.over, j.Groups[0].MinSuccess, tt.succeeds)
		}
	}
}
