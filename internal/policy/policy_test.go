package policy_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/policy"
)

const (
	ann    = "spiffe://h.org/swarm/swci/ann"
	bob    = "spiffe://h.org/swarm/swci/bob"
	shared = "spiffe://h.org/swarm/swci"
)

func digest(c string) string { return strings.Repeat(c, 64) }

// image is one that a registry knows by a digest.
func image(name, d string) policy.Image {
	return policy.Image{Name: name, Digests: []string{"sha256:" + digest(d)}}
}

// run is a task that asks for nothing but an image.
func run() policy.Request {
	return policy.Request{
		Submitter: ann, Swarm: "s1", Taskrunner: "tr", Task: "train", Type: "RUN_SWARM", Digest: digest("a"),
		Image: image("reg.h.org:5000/ml/train:v1", "b"), Runtime: "docker", Held: true,
	}
}

func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("/etc/swarm/policy.yaml", []byte(text), "h.org")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unwritten(t *testing.T, name string) *policy.Policy {
	t.Helper()
	p, err := policy.Unwritten(name, "h.org")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const basic = `
sentences:
  - Allow spiffe://h.org/swarm/swci/* to use host where all {task.type='RUN_SWARM',
    image.repository='reg.h.org:5000/ml/train'}
  - sentence: Allow spiffe://h.org/swarm/swci/bob to use host
    ask: true
limits:
  cpus: 8
  memory: 64GiB
  gpus: 0
  hours: 1.5
  volumes: [data, trial-*]
  paths: [/srv/shared]
  networks: ["*"]
  isolation: [ipc=host, device]
`

func TestDecide(t *testing.T) {
	p := parse(t, basic)
	for _, tt := range []struct {
		name string
		with func(*policy.Request)
		want string
	}{
		{"the first sentence", func(*policy.Request) {}, "allowed by /etc/swarm/policy.yaml:3: Allow spiffe://h.org/swarm/swci/* to use host where all {"},
		{"the one that lets more through", func(r *policy.Request) { r.Submitter = bob }, "allowed by /etc/swarm/policy.yaml:3: "},
		{"the one that asks", func(r *policy.Request) { r.Submitter, r.Type = bob, "PULL_IMAGE" }, "to be approved first, by /etc/swarm/policy.yaml:5: Allow spiffe://h.org/swarm/swci/bob to use host"},
		{"another organisation", func(r *policy.Request) { r.Submitter = "spiffe://x.org/swarm/swci/eve" }, "refused: policy.yaml:3 does not allow it, as it is for spiffe://h.org/swarm/swci/*, not for spiffe://x.org/swarm/swci/eve; " +
			"add to sentences in policy.yaml: Allow spiffe://x.org/swarm/swci/eve to use host where all {task.type='RUN_SWARM', image.digest='sha256:" + digest("b") + "'}"},
		{"another type", func(r *policy.Request) { r.Type, r.Image.Digests = "PULL_IMAGE", nil }, "refused: policy.yaml:3 does not allow it, as task.type is 'PULL_IMAGE', not 'RUN_SWARM'; " +
			"add to sentences in policy.yaml: Allow " + ann + " to use host where all {task.type='PULL_IMAGE', task.digest='" + digest("a") + "'}"},
		{"another image", func(r *policy.Request) { r.Image.Name = "reg.h.org:5000/ml/train2@sha256:00" }, "image.repository is 'reg.h.org:5000/ml/train2', not"},
		{"nobody", func(r *policy.Request) { r.Submitter = "" }, "refused: nobody is known to have asked"},
		{"CPUs", func(r *policy.Request) { r.CPUs = 8.5 }, "refused: it asks for 8.5 CPUs, and this host gives 8; raise cpus under limits in policy.yaml"},
		{"memory", func(r *policy.Request) { r.Memory = 64<<30 + 1 }, "refused: it asks for 68719476737 bytes of memory, and this host gives 68719476736;"},
		{"a GPU", func(r *policy.Request) { r.GPUs = 1 }, "refused: it asks for 1 GPUs, and this host gives 0; raise gpus"},
		{"hours", func(r *policy.Request) { r.Hours = 2 }, "refused: it asks for 2 hours, and this host gives 1.5; raise hours"},
		{"nothing that holds it", func(r *policy.Request) { r.Held, r.CPUs = false, 1 }, "refused: this host can't hold what it runs to 8 CPUs; run tasks in containers, or take out cpus under limits"},
		{"all GPUs", func(r *policy.Request) { r.AllGPUs = true }, "refused: it would have all GPUs of this host by its profile, and this host gives 0; name GPUs as device=… in the profile"},
		{"all of it", func(r *policy.Request) { r.CPUs, r.Memory, r.Hours = 8, 64<<30, 1.5 }, "allowed"},
		{"volumes", func(r *policy.Request) { r.Volumes = []string{"data", "trial-1"} }, "allowed"},
		{"another volume", func(r *policy.Request) { r.Volumes = []string{"data2"} }, `refused: it asks for the volume "data2", which this host does not give; add it to volumes`},
		{"a path", func(r *policy.Request) { r.Paths = []string{"/srv/shared", "/srv/shared/x"} }, "allowed"},
		{"a node's volume", func(r *policy.Request) { r.Volumes = []string{"data", "swarmd-sl-1"} }, `refused: it asks for the volume "swarmd-sl-1", as volumes are named that keep`},
		{"a path beside it", func(r *policy.Request) { r.Paths = []string{"/srv/shared2"} }, `refused: it asks for the path "/srv/shared2"`},
		{"a way out", func(r *policy.Request) { r.Paths = []string{"/srv/shared/../../etc"} }, `refused: it asks for the path`},
		{"a network", func(r *policy.Request) { r.Networks = []string{"lab"} }, "allowed"},
		{"the host's network", func(r *policy.Request) { r.Networks = []string{"host"} }, `refused: it asks for the network "host"`},
		{"another container's", func(r *policy.Request) { r.Networks = []string{"container:sn"} }, `refused: it asks for the network`},
		{"openings", func(r *policy.Request) { r.Isolation = []string{"ipc=host", "device=/dev/kfd"} }, "allowed"},
		{"another opening", func(r *policy.Request) { r.Isolation = []string{"ipc=shareable"} }, `refused: it asks for the opening "ipc=shareable"`},
		{"privileged", func(r *policy.Request) { r.Isolation = []string{"privileged"} }, "add it to isolation under limits"},
	} {
		r := run()
		tt.with(&r)
		if got := p.Decide(r); !strings.Contains(got.String(), tt.want) || strings.Contains(got.String(), "\n") {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
	if held := p.Terms().Limits; held != (policy.Limits{CPUs: 8, Memory: 64 << 30, Hours: 1.5}) {
		t.Errorf("held to %+v", held)
	}
	if d := p.Decide(func() policy.Request { r := run(); r.CPUs = 9; return r }()); d.By.String() != "/etc/swarm/policy.yaml:8: limits: cpus: 8" {
		t.Errorf("the limit that decided: %s", d.By)
	}
}

// TestUnlisted holds that a policy without limits gives nothing of the host that a task names, and limits no numbers.
func TestUnlisted(t *testing.T) {
	p := parse(t, "sentences: ['Allow spiffe://h.org/** to use host']")
	r := run()
	r.CPUs, r.Memory, r.GPUs, r.Hours = 1000, 1<<40, 8, 1000
	if d := p.Decide(r); d.Verdict != policy.Allowed {
		t.Error(d)
	}
	for _, with := range []func(*policy.Request){
		func(r *policy.Request) { r.Volumes = []string{"v"} }, func(r *policy.Request) { r.Paths = []string{"/"} },
		func(r *policy.Request) { r.Networks = []string{"n"} }, func(r *policy.Request) { r.Isolation = []string{"ipc=host"} },
	} {
		r := run()
		with(&r)
		if d := p.Decide(r); d.Verdict != policy.Refused || !strings.HasPrefix(d.By.Text, "limits: no ") {
			t.Errorf("%+v: %s, by %s", r, d, d.By)
		}
	}
	if d := parse(t, "# nothing\n").Decide(run()); d.Verdict != policy.Refused || !strings.Contains(d.String(), "has no sentence about the host") {
		t.Error(d)
	}
	if d := new(policy.Policy).Decide(run()); d.Verdict != policy.Refused {
		t.Error(d)
	}
}

// TestUnwritten holds what hosts do that have no policy, and those that ask about everything.
func TestUnwritten(t *testing.T) {
	for _, tt := range []struct {
		name      string
		with      func(*policy.Request)
		null, ask policy.Verdict
	}{
		{"a run", func(*policy.Request) {}, policy.Allowed, policy.Asked},
		{"a build", func(r *policy.Request) { r.Type, r.Image = "MAKE_USER_CONTAINER", policy.Image{} }, policy.Allowed, policy.Asked},
		{"by anybody", func(r *policy.Request) { r.Submitter = "spiffe://x.org/swarm/swci/eve" }, policy.Allowed, policy.Asked},
		{"nobody", func(r *policy.Request) { r.Submitter = "" }, policy.Refused, policy.Refused},
		{"a volume", func(r *policy.Request) { r.Volumes = []string{"v"} }, policy.Allowed, policy.Asked},
		{"a node's volume", func(r *policy.Request) { r.Volumes = []string{"swarmd-swop-1"} }, policy.Refused, policy.Refused},
		{"a path", func(r *policy.Request) { r.Paths = []string{"/srv"} }, policy.Refused, policy.Refused},
		{"a network", func(r *policy.Request) { r.Networks = []string{"host"} }, policy.Refused, policy.Refused},
		{"an opening", func(r *policy.Request) { r.Isolation = []string{"privileged"} }, policy.Refused, policy.Refused},
		{"a process", func(r *policy.Request) { r.Runtime = policy.Process }, policy.Refused, policy.Asked},
		{"a process of local", func(r *policy.Request) { r.Runtime, r.Local = policy.Process, true }, policy.Allowed, policy.Asked},
	} {
		r := run()
		tt.with(&r)
		for name, want := range map[string]policy.Verdict{policy.Null: tt.null, policy.Ask: tt.ask} {
			d := unwritten(t, name).Decide(r)
			if d.Verdict != want || (d.Verdict == policy.Refused) != (d.Remedy != "") {
				t.Errorf("%s, %s: %s, want %s", name, tt.name, d, want)
			}
		}
	}
	if _, err := policy.Unwritten("nul", "h.org"); err == nil || !strings.Contains(err.Error(), "want null, ask or a file") {
		t.Error(err)
	}
}

// TestSays holds the lines that hosts log when they start.
func TestSays(t *testing.T) {
	for want, p := range map[string]*policy.Policy{
		"no policy: this host carries out every task for container images":       unwritten(t, policy.Null),
		"before it is approved by spiffe://h.org/swarm/swci/*":                   unwritten(t, policy.Ask),
		"allows tasks by 2 sentences, 1 of them after an approval by spiffe://h": parse(t, basic),
		"refuses every task, as it has no sentence":                              parse(t, "ask: true"),
		"by nobody": parse(t, "{ask: true, approvers: [], sentences: ['Allow spiffe://h.org/** to use host']}"),
	} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("got %s, want %s", p, want)
		}
	}
}

func TestApproves(t *testing.T) {
	named := parse(t, "approvers: [spiffe://h.org/swarm/swci, spiffe://h.org/swarm/swci/bob]")
	wide := parse(t, "approvers: [spiffe://h.org/**]")
	for _, tt := range []struct {
		p    *policy.Policy
		by   string
		want string // empty: it may
	}{
		{unwritten(t, policy.Ask), bob, ""},
		{unwritten(t, policy.Ask), ann, "another SPIFFE ID is to approve it"},
		{unwritten(t, policy.Ask), "", "another SPIFFE ID"},
		{unwritten(t, policy.Ask), shared, "is no approver of this host"},
		{unwritten(t, policy.Ask), "spiffe://x.org/swarm/swci/bob", "write a policy with approvers"},
		{named, bob, ""},
		{named, shared, ""},
		{named, "spiffe://h.org/swarm/swci/eve", "add it to approvers in policy.yaml"},
		{wide, bob, ""},
		{wide, shared, "is shared by several people"},
		{parse(t, "approvers: []"), bob, "these are nobody"},
		{new(policy.Policy), bob, "is no approver"},
	} {
		err := tt.p.Approves(tt.by, ann)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s by %s: %v, want %s", tt.p, tt.by, err, tt.want)
		}
	}
}

func TestLogs(t *testing.T) {
	for text, want := range map[string][3]bool{
		"":                                    {true, true, false},
		"logs: []":                            {false, false, false},
		"logs: [spiffe://x.org/swarm/swci/*]": {false, false, true},
	} {
		p := parse(t, text)
		if got := [3]bool{p.LogsTo(ann) == nil, p.LogsTo(shared) == nil, p.LogsTo("spiffe://x.org/swarm/swci/eve") == nil}; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestLogsRefusal holds that a refusal names the rule and what the owner can do.
func TestLogsRefusal(t *testing.T) {
	const eve = "spiffe://x.org/swarm/swci/eve"
	ask, err := policy.Unwritten(policy.Ask, "h.org")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		p    *policy.Policy
		want string
	}{
		{ask, "by default they go to spiffe://h.org/swarm/swci/**; to let them, write a policy with logs"},
		{parse(t, ""), "by default they go to spiffe://h.org/swarm/swci/**; to let them, add it to logs in policy.yaml"},
		{parse(t, "ask: true\nlogs: []"), "policy.yaml:2: logs: nobody; to let them, add it to logs in policy.yaml"},
		{parse(t, "logs:\n- spiffe://x.org/swarm/swci/ann"), "policy.yaml:2: logs: spiffe://x.org/swarm/swci/ann; to let them, add it to logs in policy.yaml"},
	} {
		if err, want := tt.p.LogsTo(eve), "logs of this host do not go to "+eve+": "+tt.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestErrors holds that each mistake is told with its line, and with the word that was probably meant.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"aks: true":                   `p.yaml:1: "aks" is no key of a policy: did you mean ask?`,
		"rules: []":                   `p.yaml:1: "rules" is no key of a policy: want approvers, ask, folders, forwards, limits, logs, sentences`,
		"ask: maybe":                  "p.yaml:1: ask is true or false",
		"ask: true\nask: true":        "p.yaml:2: ask stands there twice",
		"- a":                         "p.yaml:1: a policy has keys and values",
		"ask: [":                      "p.yaml:1: it is no YAML: did not find",
		"a: b: c":                     "p.yaml:1: it is no YAML: mapping values",
		"ask: true\n---\nask: true":   "more than one YAML document",
		"sentences: Allow x":          "p.yaml:1: sentences is a list: each entry on a line of its own, after - ",
		"sentences:\n- Allow\n- true": "p.yaml:2: the end where a SPIFFE ID pattern is to stand, such as spiffe://example.org/swarm/swci/*\np.yaml:3: want text",
		"sentences:\n- {ask: true}":   "p.yaml:2: it has no sentence",
		"sentences:\n\n- Allow spiffe://h.org/** to use hots":                             `p.yaml:3: "hots" is no resource: did you mean host?`,
		"sentences:\n- Allow spiffe://h.org/** to manage host":                            `p.yaml:2: "manage" is no verb: want use`,
		"sentences:\n- Allow spiffe://h.org/** to use host where task.type=RUN_SWARN":     "p.yaml:2: 'RUN_SWARN' is no task.type: did you mean RUN_SWARM?",
		"sentences:\n- Allow spiffe://h.org/** to use host where task.type=RUN_JOBS":      "p.yaml:2: 'RUN_JOBS' is no task.type: did you mean RUN_JOB?",
		"sentences:\n- Allow spiffe://h.org/** to use host where runtime='vm'":            "'vm' is no runtime: want docker, podman, process",
		"sentences:\n- Allow spiffe://h.org/** to use host where image.digest='sha256:1'": "'sha256:1' is no digest of an image",
		"sentences:\n- Allow spiffe://h.org/** to use host where task.digest='sha256:1'":  "is no digest of a task: want 64 hex digits",
		"approvers:\n- h.org":                                       "p.yaml:2: SPIFFE ID pattern",
		"logs: spiffe://h.org/**":                                   "p.yaml:1: logs is a list",
		"limits:\n  cpu: 1":                                         `p.yaml:2: "cpu" is no key of limits: did you mean cpus?`,
		"limits: {cpus: 0}":                                         "cpus: 0 is out of bounds: want 0.01 to 65536",
		"limits: {cpus: 0.000001}":                                  "cpus: 0.000001 is out of bounds",
		"limits: {memory: 0.5}":                                     "memory: 0.5 is out of bounds: want 6291456 to",
		"limits: {hours: 1e-30}":                                    "hours: 1e-30 is out of bounds",
		"limits: {cpus: -1}":                                        "out of bounds",
		"limits: {cpus: .nan}":                                      "is no number of CPUs",
		"limits: {cpus: NaN}":                                       "out of bounds",
		"limits: {memory: 64 gallons}":                              `"64 gallons" is no number of bytes of memory: want bytes, such as 64GiB`,
		"limits: {gpus: 1.5}":                                       "want a whole number",
		"limits: {hours: [1]}":                                      "is no number of hours",
		"limits: {paths: [srv]}":                                    "want an absolute path",
		"limits: {paths: [/srv/]}":                                  "want an absolute path",
		"limits: {volumes: [a/b]}":                                  "is no name",
		"limits: {networks: ['a*b']}":                               "is no name",
		"limits: {isolation: [privileges]}":                         `"privileges" opens no isolation: did you mean privileged?`,
		"limits: {isolation: [unbound=all]}":                        "want one of privileged, ipc",
		"limits: 8":                                                 "limits has keys and values",
		"x: &a [b]\nlogs: *a":                                       "logs is a list",
		"logs: [!x spiffe://h.org/**]":                              "want text",
		"limits: {volumes: [" + strings.Repeat("a", 513) + "]}":     "has 513 bytes, at most 512",
		"limits: {volumes: [" + strings.Repeat("a,", 257) + "]}":    "has 257 entries, at most 256",
		"# " + strings.Repeat("x", policy.MaxBytes):                 "at most 65536",
		"logs: [" + strings.Repeat("spiffe://h.org/x, ", 65) + "]":  "has 65 entries, at most 64",
		"sentences: [" + strings.Repeat("a,", 257) + "]":            "has 257 entries, at most 256",
		strings.Repeat("[", 20000):                                  "p.yaml:",
		"sentences:\n- |\n  Allow spiffe://h.org/**\n  to use\n  x": `p.yaml:2: "x" is no resource: want host`,
	} {
		p, err := policy.Parse("p.yaml", []byte(text), "h.org")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v\nwant %s", text, p, err, want)
		}
	}
}

// TestTheImageDecides: each digest that stands for an image is as good as another, and one that is not known allows nothing that names one.
func TestTheImageDecides(t *testing.T) {
	p := parse(t, "sentences:\n  - Allow spiffe://h.org/** to use host where image.digest='sha256:"+digest("b")+"'\n")
	for _, tt := range []struct {
		image policy.Image
		want  string
	}{
		{image("a:1", "b"), "allowed by"},
		{policy.Image{Name: "a", ID: "sha256:" + digest("b"), Digests: []string{"sha256:" + digest("c")}}, "allowed by"},
		{policy.Image{Name: "a", ID: "sha256:" + digest("c"), Digests: []string{"sha256:" + digest("d"), "sha256:" + digest("b")}}, "allowed by"},
		{image("a:1", "c"), "as image.digest is 'sha256:" + digest("c") + "', not 'sha256:" + digest("b") + "'; add to sentences in policy.yaml: Allow " + ann +
			" to use host where all {task.type='RUN_SWARM', image.digest='sha256:" + digest("c") + "'}"},
		{*policy.UnknownImage("a:1", "no registry\nanswers"), "as image.digest is not known; image a:1 is not known by any digest: no registry answers; add to sentences"},
		{*policy.UnknownYet("a:1", "no registry\nanswers"), "as image.digest is not known; image a:1 is not known by any digest yet: no registry answers; add to sentences"},
		{policy.Image{}, "as image.digest is not known; add"},
	} {
		r := run()
		r.Image = tt.image
		if d := p.Decide(r); !strings.Contains(d.String(), tt.want) {
			t.Errorf("%+v:\n got %s\nwant %s", tt.image, d, tt.want)
		}
	}
	p = parse(t, "sentences:\n  - Allow spiffe://h.org/** to use host where all {task.outcome='train', image.repository='reg.h.org/ml/train'}\n")
	for outcome, want := range map[string]policy.Verdict{"train": policy.Allowed, "swarmd": policy.Refused, "": policy.Refused} {
		r := run()
		r.Outcome, r.Image = outcome, image("reg.h.org/ml/train@sha256:"+digest("b"), "b")
		if d := p.Decide(r); d.Verdict != want {
			t.Errorf("outcome %q: %s", outcome, d)
		}
	}
}

// TestImagesHaveBounds: what comes from an engine or a file is held to its form.
func TestImagesHaveBounds(t *testing.T) {
	id := "sha256:" + digest("b")
	if i, err := policy.NewImage("a", id, "sha256:"+digest("c")); err != nil || i.String() != "sha256:"+digest("c")+" (a)" || len(i.Values()) != 2 {
		t.Errorf("%v, %v", i, err)
	}
	for name, i := range map[string]policy.Image{
		"no name": {ID: id}, "a long name": {Name: strings.Repeat("a", 513), ID: id}, "nothing": {Name: "a"}, "both": {Name: "a", ID: id, Unknown: "x"},
		"no digest": {Name: "a", ID: "sha256:" + digest("B")}, "too many": {Name: "a", Digests: slices.Repeat([]string{id}, 65)}, "another algorithm": {Name: "a", Digests: []string{"sha512:" + digest("b")}},
	} {
		if err := i.Check(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if i := policy.UnknownImage(strings.Repeat("é", 999), strings.Repeat("x\n", 999)); i.Check() != nil {
		t.Errorf("%+v: %v", i, i.Check())
	}
}

// TestExample holds that the example of the documents says what its comments say.
func TestExample(t *testing.T) {
	const file = "../../docs/operations/policy.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(file, data, "hospital-a.example")
	if err != nil {
		t.Fatal(err)
	}
	r := run()
	known := r.Image.Digests[0]
	for _, tt := range []struct {
		by, image string
		want      policy.Verdict
	}{
		{"spiffe://hospital-b.example/swarm/swci/trials", known, policy.Asked},
		{"spiffe://hospital-b.example/swarm/swci/other", known, policy.Refused},
		{"spiffe://hospital-a.example/swarm/swci/anna", known, policy.Asked},
		{"spiffe://hospital-a.example/swarm/swci/anna", "sha256:2b1c9f0d4f1f5a2c8f6e3d7b9a0c1e2f3a4b5c6d7e8f90112233445566778899", policy.Allowed},
	} {
		r.Submitter, r.Image.Digests = tt.by, []string{tt.image}
		if d := p.Decide(r); d.Verdict != tt.want {
			t.Errorf("%s with %s: %s, want %s", tt.by, tt.image, d, tt.want)
		}
	}
}

// TestMonotonic holds that another sentence never lets less through, and another or a lower limit, or a shorter list, never more.
func TestMonotonic(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same ones each time
	for range 1000 {
		d := randomDraft(r)
		request := randomRequest(r)
		before := parse(t, d.text()).Decide(request)
		more, less := d, d
		more.sentences = slices.Insert(slices.Clone(d.sentences), r.IntN(len(d.sentences)+1), randomSentence(r))
		if after := parse(t, more.text()).Decide(request); after.Verdict < before.Verdict {
			t.Fatalf("%s with another sentence %s\n%s\n%+v", before, after, more.text(), request)
		}
		switch r.IntN(3) {
		case 0:
			less.cpus = 1
		case 1:
			less.gpus = "0"
		case 2:
			less.volumes = d.volumes[:len(d.volumes)/2]
		}
		if after := parse(t, less.text()).Decide(request); after.Verdict > before.Verdict {
			t.Fatalf("%s with less %s\n%s\n%+v", before, after, less.text(), request)
		}
	}
}

type draft struct {
	ask       bool
	sentences []string
	cpus      int // 0: no limit
	gpus      string
	volumes   []string
}

func (d draft) text() string {
	s := "ask: " + strconv.FormatBool(d.ask) + "\nsentences:\n" + strings.Join(d.sentences, "")
	s += "limits:\n  volumes: [" + strings.Join(d.volumes, ", ") + "]\n"
	if d.cpus > 0 {
		s += "  cpus: " + strconv.Itoa(d.cpus) + "\n"
	}
	if d.gpus != "" {
		s += "  gpus: " + d.gpus + "\n"
	}
	return s
}

func randomSentence(r *rand.Rand) string {
	s := "  - sentence: Allow " + []string{"spiffe://h.org/**", ann, bob}[r.IntN(3)] + " to use host"
	s += []string{"", " where task.type='RUN_SWARM'", " where any {task.name='train', image.digest='sha256:" + digest("c") + "'}", " where task.name!='train'"}[r.IntN(4)]
	return s + []string{"", "\n    ask: true", "\n    ask: false"}[r.IntN(3)] + "\n"
}

func randomDraft(r *rand.Rand) draft {
	d := draft{ask: r.IntN(2) == 0, cpus: r.IntN(4), gpus: []string{"", "0", "2"}[r.IntN(3)], volumes: []string{"v1", "v2", "'v*'"}[r.IntN(3):]}
	for range r.IntN(3) {
		d.sentences = append(d.sentences, randomSentence(r))
	}
	return d
}

func randomRequest(r *rand.Rand) policy.Request {
	q := run()
	q.Submitter = []string{ann, bob, shared}[r.IntN(3)]
	q.Type = []string{"RUN_SWARM", "PULL_IMAGE"}[r.IntN(2)]
	q.Task = []string{"train", "other"}[r.IntN(2)]
	q.Image.Digests = [][]string{nil, {"sha256:" + digest("c")}}[r.IntN(2)]
	q.CPUs, q.GPUs = float64(r.IntN(4)), r.IntN(3)
	q.Volumes = []string{"v1", "v2", "x"}[:r.IntN(4)]
	return q
}

// FuzzParse holds that no file harms the reader, and that each mistake is on a line of its own.
func FuzzParse(f *testing.F) {
	f.Add([]byte(basic))
	f.Add([]byte("ask: true\napprovers: [spiffe://h.org/**]\nlogs: []\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\n? {}\n: !!binary x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("p.yaml", data, "h.org")
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "p.yaml:") {
					t.Fatalf("%q", err)
				}
			}
			return
		}
		p.Decide(run())
	})
}

// TestHopesExceedWhatIsSaid: whatever image turns out, no more is let through than was hoped before, when its name was known and when not.
func TestHopesExceedWhatIsSaid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed seed
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	conditions := []string{
		"image.digest='sha256:" + digest("a") + "'", "image.digest!='sha256:" + digest("a") + "'", "image.repository='x'", "image.reference!='x:1'", "task.name='t'", "task.name!='t'", "runtime='docker'",
	}
	refused, allowed := 0, 0
	for range 3000 {
		text := "sentences:\n"
		for range 1 + rng.IntN(3) {
			text += "- {sentence: \"Allow " + ann + " to use host where " + pick("all", "any") + " {" + pick(conditions...) + ", " + pick(conditions...) + "}\", ask: " + pick("true", "false") + "}\n"
		}
		p := parse(t, text)
		r := run()
		r.Task, r.Runtime, r.Image = pick("t", "u"), pick("docker", "podman"), image(pick("x:1", "x:2", "y"), pick("a", "b"))
		said, hoped := p.Decide(r).Verdict, r
		for _, i := range []policy.Image{{Name: r.Image.Name}, {}} {
			hoped.Image, hoped.AnyImage = i, true
			if got := p.Decide(hoped); got.Verdict < said {
				t.Fatalf("%s\n%+v: it says %s, and hoped %s of %+v", text, r, said, got, i)
			} else if got.Verdict == policy.Refused {
				refused++
			}
		}
		if said != policy.Refused {
			allowed++
		}
	}
	if refused == 0 || allowed == 0 {
		t.Errorf("%d were hopeless, %d let through: the test tells nothing", refused, allowed)
	}
}

// TestRanksOfSLs: an SL is let through only where it is named, not by what is for operators, or where nobody has said anything.
func TestRanksOfSLs(t *testing.T) {
	const sl = "spiffe://h.org/swarm/sl/sl-1"
	null, err := policy.Unwritten(policy.Null, "h.org")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := policy.Unwritten(policy.Ask, "h.org")
	if err != nil {
		t.Fatal(err)
	}
	says := func(who string) *policy.Policy {
		return parse(t, "sentences: [\"Allow "+who+" to use host where all {task.type='RUN_JOB'}\"]")
	}
	for _, tt := range []struct {
		name string
		p    *policy.Policy
		want string
	}{
		{"none", null, "refused: this host has no policy, and runs ranks only of SLs that one names; start the host with --policy ask, or with a policy that says: Allow " + sl + " to use host"},
		{"ask", ask, "to be approved first"},
		{"it is named", says(sl), "allowed"},
		{"all SLs are", says("spiffe://h.org/swarm/sl/*"), "allowed"},
		{"shared", says("spiffe://h.org/swarm/sl/**"), "allowed"},
		{"another is named", says("spiffe://h.org/swarm/sl/sl-2"), "refused"},
		{"everybody is let in", says("spiffe://h.org/**"), "it is for whoever matches, and an SL must be named"},
		{"everybody of the swarm", says("spiffe://h.org/swarm/*/*"), "an SL must be named"},
	} {
		r := run()
		r.Submitter, r.Type, r.Runtime = sl, "RUN_JOB", "docker"
		if got := tt.p.Decide(r); !strings.Contains(got.String(), tt.want) {
			t.Errorf("%s: got %s", tt.name, got)
		}
	}
}

// TestForwards holds that ports are forwarded to nobody whom the owner has not named, and that a refusal says so with the remedy.
func TestForwards(t *testing.T) {
	const eve = "spiffe://x.org/swarm/swci/eve"
	for _, name := range []string{policy.Ask, policy.Null} {
		p, err := policy.Unwritten(name, "h.org")
		if err != nil {
			t.Fatal(err)
		}
		want := "ports of jobs on this host are not forwarded to " + ann + ": its policy names nobody to whom they are; to have them forwarded, write a policy with forwards"
		if err := p.ForwardsTo(ann); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	for text, tt := range map[string]struct {
		to, want string
	}{
		"":                        {ann, "its policy names nobody to whom they are; to have them forwarded, add it to forwards in policy.yaml"},
		"ask: true\nforwards: []": {ann, "policy.yaml:2: forwards: nobody; to have them forwarded, add it to forwards in policy.yaml"},
		"forwards: [spiffe://h.org/swarm/swci/*]": {eve, "policy.yaml:1: forwards: spiffe://h.org/swarm/swci/*; to have them forwarded, add it to forwards in policy.yaml"},
		"forwards: [spiffe://x.org/swarm/swci/*]": {eve, ""},
	} {
		err := parse(t, text).ForwardsTo(tt.to)
		if tt.want == "" && err == nil {
			continue
		}
		if want := "ports of jobs on this host are not forwarded to " + tt.to + ": " + tt.want; err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
