package swop_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// others are jobs of which the host has a member each.
func others(of ...ledger.Needs) (all []task.Hosted) {
	for i, n := range of {
		all = append(all, task.Hosted{
			Request: task.Request{ID: strconv.Itoa(i + 1), Groups: []task.Group{{Name: "g", Peers: 2, Needs: n}}}, Members: []task.HostedMember{{Group: "g", Peers: 1}},
		})
	}
	return all
}

// TestWhatAPolicySaysOfJobs holds what a host's owner is asked about a job, and that what was signed must be this job.
func TestWhatAPolicySaysOfJobs(t *testing.T) {
	secrets := t.TempDir()
	if err := os.WriteFile(filepath.Join(secrets, "KEY"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	const gives = "\n- Allow " + ann + " to use secret where any {secret.name=KEY, image.reference='i:1'}"
	if err := os.WriteFile(filepath.Join(secrets, "OWN"), []byte("hunter3"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := func(h *task.Hosted) { h.Members = append(h.Members, task.HostedMember{Index: 1, Group: "s"}) }
	sum := func(c rune) string { return "sha256:" + strings.Repeat(string(c), 64) }
	image := &policy.Image{Name: "i:1", ID: sum('a')}
	two, err := policy.NewImages(&policy.Image{Name: "i:2", ID: sum('b')}, image)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, policy, job string
		process           bool
		change            func(*task.Hosted)
		earlier           []task.Hosted // that the host has
		want              string        // words of why it is refused; empty: it is allowed
	}{
		{name: "a process", policy: "", job: "command: python3 -m a", process: true},
		{name: "no processes", policy: "where runtime='docker'", job: "command: python3 -m a", process: true, want: "does not allow it, as "},
		{name: "no jobs", policy: "where task.type='RUN_SWARM'", job: "command: python3 -m a", process: true, want: "does not allow it, as "},
		{name: "a container", policy: "where image.reference='i:1'", job: "image: i:1"},
		{name: "another image", policy: "where image.reference='i:2'", job: "image: i:1", want: "does not allow it, as "},
		{name: "the host's network", job: "image: i:1\nnetwork: host", want: "asks for the network \"host\""},
		{name: "the host's network, given", policy: "\nlimits: {networks: [host]}", job: "image: i:1\nnetwork: host"},
		{name: "an overlay", policy: "\nlimits: {networks: [lab]}", job: "image: i:1\nnetwork: lab"},
		{name: "another overlay", policy: "\nlimits: {networks: [host, lab]}", job: "image: i:1\nnetwork: lab2", want: "asks for the network \"lab2\""},
		{name: "an overlay where none is given", job: "image: i:1\nnetwork: lab", want: "asks for the network \"lab\""},
		{name: "a target", policy: "\ntargets: {b: 'lab:x'}", job: "image: i:1\nartifacts: {dir: /a, to: b}"},
		{name: "a target that the host lacks", policy: "\ntargets: {b: 'lab:x'}", job: "command: python3 -m a\nartifacts: {dir: /a, to: c}", process: true, want: "asks to have artifacts copied to \"c\", and this host has no target of that name"},
		{name: "some with an image", job: "network: host\ngroups: [{name: r, image: i:1}, {name: s, command: a}]", want: "have an image and others none"},
		{name: "CPUs of both members", policy: "\nlimits: {cpus: 3}", job: "image: i:1\nreplicas: 2\nresources: {cpu: 2}", want: "asks for 4 CPUs"},
		{name: "memory of both", policy: "\nlimits: {memory: 3g}", job: "image: i:1\nreplicas: 2\nresources: {memory: 1GiB}"},
		{name: "CPUs of it and another", policy: "\nlimits: {cpus: 3}", job: "image: i:1\nresources: {cpu: 2}", earlier: others(ledger.Needs{MilliCPU: 500}, ledger.Needs{MilliCPU: 500})},
		{name: "CPUs of it and others", policy: "\nlimits: {cpus: 3}", job: "image: i:1\nresources: {cpu: 2}", earlier: others(ledger.Needs{MilliCPU: 500}, ledger.Needs{MilliCPU: 600}), want: "asks for 3.1 CPUs"},
		{name: "memory of it and another", policy: "\nlimits: {memory: 1GiB}", job: "image: i:1\nresources: {memory: 1GiB}", earlier: others(ledger.Needs{Memory: 1}), want: "bytes of memory"},
		{name: "disk of it and another", policy: "\nlimits: {disk: 10g}", job: "command: python3 -m a\nresources: {cpu: 1, disk: 6GiB}", process: true, earlier: others(ledger.Needs{MilliCPU: 1, Disk: 4 << 30})},
		{name: "more disk than it gives", policy: "\nlimits: {disk: 10g}", job: "image: i:1\nresources: {cpu: 1, disk: 6GiB}", earlier: others(ledger.Needs{MilliCPU: 1, Disk: 5 << 30}), want: "asks for 11811160064 bytes of disk, and this host gives 10737418240"},
		{name: "beside what takes all", job: "command: python3 -m a\nresources: {cpu: 2}", process: true, earlier: others(ledger.Needs{}), want: "members of assignment 1, and one of the two does not say"},
		{name: "all beside another", job: "command: python3 -m a", process: true, earlier: others(ledger.Needs{MilliCPU: 1}), want: "members of assignment 1, and one of the two does not say"},
		{name: "beside another", job: "command: python3 -m a\nresources: {cpu: 2}", process: true, earlier: others(ledger.Needs{MilliCPU: 1})},
		{name: "GPUs alone where memory is limited", policy: "\nlimits: {memory: 16GiB}", job: "image: i:1\nresources: {gpu: 1}"},
		{name: "GPUs alone beside another where memory is limited", policy: "\nlimits: {memory: 16GiB}", job: "image: i:1\nresources: {gpu: 1}", earlier: others(ledger.Needs{GPUs: 1, Memory: 1}), want: "and this host has members of assignment 1: say memory under resources"},
		{name: "beside GPUs alone where memory is limited", policy: "\nlimits: {memory: 16GiB}", job: "image: i:1\nresources: {gpu: 1, memory: 1GiB}", earlier: others(ledger.Needs{GPUs: 1}), want: "assignment 1, which does not say how much memory they take"},
		{name: "memory alone beside another where CPUs are limited", policy: "\nlimits: {cpus: 3}", job: "image: i:1\nresources: {memory: 1GiB}", earlier: others(ledger.Needs{MilliCPU: 1}), want: "how much cpu its members take"},
		{name: "both said beside another that says both", policy: "\nlimits: {cpus: 3, memory: 16GiB}", job: "image: i:1\nresources: {cpu: 1, memory: 1GiB}", earlier: others(ledger.Needs{MilliCPU: 1, Memory: 1})},
		{name: "GPUs alone beside others where nothing is limited", job: "image: i:1\nresources: {gpu: 1}", earlier: others(ledger.Needs{GPUs: 1})},
		{name: "limits of processes", policy: "\nlimits: {cpus: 3}", job: "command: python3 -m a", process: true, want: "can't hold what it runs to"},
		{name: "a container as process", job: "image: i:1", process: true, want: "this host runs jobs as processes"},
		{name: "a process in a container", job: "command: python3 -m a", want: "it has no image, and this host runs jobs in containers"},
		{name: "two images", policy: "where image.reference in ('i:1', 'i:2')", job: "groups: [{name: r, image: i:1}, {name: s, image: i:2}]"},
		{name: "two images, of which one is not allowed", policy: "where image.reference='i:1'", job: "groups: [{name: r, image: i:1}, {name: s, image: i:2}]", want: "does not allow it, as "},
		{name: "two images, of which the other is not allowed", policy: "where image.reference='i:2'", job: "groups: [{name: r, image: i:1}, {name: s, image: i:2}]", want: "does not allow it, as "},
		{name: "two images by digest", policy: "where image.digest in ('" + sum('a') + "', '" + sum('b') + "')", job: "groups: [{name: r, image: i:1}, {name: s, image: i:2}]"},
		{name: "two images, of which one has another digest", policy: "where image.digest='" + sum('a') + "'", job: "groups: [{name: r, image: i:1}, {name: s, image: i:2}]", want: "does not allow it, as "},
		{name: "a secret", policy: gives, job: "command: python3 -m a\nsecrets: [KEY]", process: true},
		{name: "one that no sentence gives", job: "command: python3 -m a\nsecrets: [KEY]", process: true, want: "asks for the secret \"KEY\", which this host does not give to it"},
		{name: "one of another group than this host's", policy: "", job: "command: python3 -m a\nnetwork: host\ngroups: [{name: r}, {name: s, secrets: [KEY]}]", process: true},
		{name: "one that the host lacks", policy: gives, job: "image: i:1\nsecrets: [{name: NONE, as: file}]", want: "this host has no secret \"NONE\": its owner puts a file of that name"},
		{name: "two images, a secret of one of them", policy: gives, job: "groups: [{name: r, image: i:1, secrets: [OWN]}, {name: s, image: i:2}]"},
		{name: "two images, a secret of the other", policy: gives, job: "groups: [{name: r, image: i:1}, {name: s, image: i:2, secrets: [OWN]}]", change: all, want: "asks for the secret \"OWN\", which this host does not give to it"},
		{name: "two images, a secret of the other, which another host has", policy: gives + "\nlimits: {networks: [host]}", job: "network: host\ngroups: [{name: r, image: i:1}, {name: s, image: i:2, secrets: [OWN]}]"},
		{name: "two images, a secret of both", policy: gives, job: "secrets: [OWN]\ngroups: [{name: r, image: i:1}, {name: s, image: i:2}]", change: all, want: "asks for the secret \"OWN\", which this host does not give to it"},
		{name: "two images, of which one was found, a secret of the other", policy: gives, job: "groups: [{name: r, image: i:1}, {name: s, image: i:3, secrets: [OWN]}]", change: all, want: "asks for the secret \"OWN\", which this host does not give to it"},
		{name: "a program of the host", job: "command: rm -rf /", process: true, want: "group node: it runs \"rm\", and a process runs Python"},
		{name: "code of another", job: "command: python3 -m a\nenv: {LD_PRELOAD: /x}", process: true, want: "its env sets \"LD_PRELOAD\""},
		{name: "another job", job: "command: python3 -m a", process: true, change: func(h *task.Hosted) { h.Retries++ }, want: "what was signed is not the job"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host "+tt.policy+"\n"), "a.example")
			if err != nil {
				t.Fatal(err)
			}
			j, err := jobfile.Read("f", []byte("name: x\n"+tt.job+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			w, err := framework.WorldOf(j)
			if err != nil {
				t.Fatal(err)
			}
			body, err := j.Encode()
			if err != nil {
				t.Fatal(err)
			}
			h := task.Hosted{Request: jobrequest.Request(w)}
			h.Hosts = []string{"swop-1"}
			for i := range w.Groups[0].Replicas {
				h.Members = append(h.Members, task.HostedMember{Index: uint32(i), Group: w.Groups[0].Name})
			}
			if tt.change != nil {
				tt.change(&h)
			}
			o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Place: swop.Place{Secrets: secret.Dir(secrets), Process: tt.process, Profile: &taskfile.Profile{}}}
			o.Earlier = func(*task.Hosted) []task.Hosted { return tt.earlier }
			found := image
			if tt.process {
				found = nil
			}
			if strings.HasPrefix(tt.name, "two images") {
				found = two
			}
			the := &task.Task{Name: "x.1", Type: task.RunJob, Definition: body}
			for when, v := range map[string]consent.Verdict{"decided": o.Decide(t.Context(), ann, &h, the, found), "hoped": o.Hopes(ann, &h, the)} {
				if when == "hoped" && (strings.HasSuffix(tt.name, "another digest") || strings.HasPrefix(tt.want, "this host has no secret")) {
					continue
				}
				if allowed := v.Decision == consent.Allowed; allowed != (tt.want == "") || !allowed && !strings.Contains(v.Sentence, tt.want) {
					t.Errorf("%s: %+v, want %q", when, v, tt.want)
				}
			}
			if g, v := o.Grant(t.Context(), the); v.Decision != consent.Allowed || len(g.Paths) > 0 || len(g.Volumes) > 0 {
				t.Errorf("granted %+v, %+v", g, v)
			}
		})
	}
}

// TestWhatRunsHasItsSecrets: what becomes of their files is no reason to end it. What has yet to begin waits where their folder is away for now.
func TestWhatRunsHasItsSecrets(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host\n- Allow "+ann+" to use secret where secret.name=KEY\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	j, err := jobfile.Read("f", []byte("name: x\ncommand: python3 -m a\nsecrets: [KEY]\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		t.Fatal(err)
	}
	body, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	h := task.Hosted{Request: jobrequest.Request(w), Members: []task.HostedMember{{Group: w.Groups[0].Name}}}
	h.Hosts = []string{"swop-1"}
	the := &task.Task{Name: "x.1", Type: task.RunJob, Definition: body}
	there := t.TempDir()
	for dir, want := range map[string]consent.Decision{there: consent.Refused, filepath.Join(there, "away"): consent.Later} {
		o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Place: swop.Place{Secrets: secret.Dir(dir), Process: true, Profile: &taskfile.Profile{}}}
		if v := o.Decide(t.Context(), ann, &h, the, nil); v.Decision != want || !strings.Contains(v.Sentence, `secret "KEY"`) {
			t.Errorf("before it begins: %+v, want %s", v, want)
		}
		if v := o.Keeps(t.Context(), ann, &h, the, nil); v.Decision != consent.Allowed {
			t.Errorf("while it runs: %+v", v)
		}
	}
}
