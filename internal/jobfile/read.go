package jobfile

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// settingNames are the fields that a group may have of its own, and the job for all of them.
var settingNames = []string{"image", "command", "args", "env", "secrets", "resources", "hosts", "volumes", "ready"}

var jobNames = append([]string{
	"name", "framework", "source", "replicas", "groups", "network", "work_dir", "artifacts", "start", "done_when", "ends", "timeout", "ready_timeout", "grace", "restarts", "beside", "compat",
}, settingNames...)

var groupNames = append([]string{"name", "replicas", "min_success"}, settingNames...)

// Read reads a job file. file is its name, for what is said of it. The error is one line and names the file's line.
func Read(file string, data []byte) (*Job, error) {
	d := &yamlfile.Document{File: file, Once: true}
	j := readJob(d, data)
	if err := firstOf(d); err != nil {
		return nil, err
	}
	return j, nil
}

// firstOf is why a file is refused: the first thing that is not as it is documented.
func firstOf(d *yamlfile.Document) error {
	all := d.All(yamlfile.Odd, yamlfile.Unfilled, yamlfile.Broken)
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return fmt.Errorf("%w (and %d more of its lines are wrong)", all[0], len(all)-1)
}

func readJob(d *yamlfile.Document, data []byte) *Job {
	root := d.Parse(data)
	if root == nil {
		return nil
	}
	f := d.At(root, "").Fields(yamlfile.Broken, jobNames...)
	if f == nil {
		return nil
	}
	j := &Job{
		Name:         wanted(f, "name", nameForm, "1 to 63 of a-z 0-9 - and begin with a letter or digit"),
		Framework:    word(given(f, "framework"), None, Frameworks...),
		Settings:     settings(f, Settings{}),
		WorkDir:      formed(given(f, "work_dir"), volumeForm, volumeRule),
		Artifacts:    artifacts(given(f, "artifacts")),
		Start:        word(given(f, "start"), "", Parallel, InOrder),
		DoneWhen:     word(given(f, "done_when"), "", Main, All, Any),
		TTL:          ends(given(f, "ends")),
		Timeout:      duration(given(f, "timeout"), MaxTimeout, time.Second, MaxTimeout),
		ReadyTimeout: duration(given(f, "ready_timeout"), DefaultReadyTimeout, time.Second, MaxTimeout),
		Grace:        duration(given(f, "grace"), DefaultGrace, 0, MaxGrace),
		Folder:       line(given(f, "source")),
	}
	j.Restarts = wholeNumber(given(f, "restarts"), 0, 0, maxRestarts)
	j.Beside = beside(given(f, "beside"))
	j.Compat = word(given(f, "compat"), "", OCI)
	readGroups(f, j)
	j.Network = network(f, j)
	j.AnyNetwork = given(f, "network").Null()
	if j.TTL >= j.Timeout { // which is counted from the start, before any member is ready
		f.Get("ends", 0).Find(yamlfile.Broken, "ends.ttl is %s and timeout %s: let it live shorter than that", Duration(j.TTL), Duration(j.Timeout))
	}
	return j
}

// readGroups reads replicas or groups, of which a job has one.
func readGroups(f *yamlfile.Fields, j *Job) {
	groups := given(f, "groups")
	if groups.Null() {
		j.Replicas = wholeNumber(given(f, "replicas"), 1, 1, MaxMembers)
		placeable(f, j.Settings)
		return
	}
	if v := given(f, "replicas"); !v.Null() {
		v.Find(yamlfile.Broken, "replicas and groups stand both here: give each group its replicas")
	}
	items := groups.List()
	if len(items) == 0 || len(items) > MaxGroups {
		groups.Find(yamlfile.Broken, "groups has %d items: write 1 to %d", len(items), MaxGroups)
		return
	}
	for _, item := range items {
		if g := readGroup(item, j); g != nil {
			if slices.ContainsFunc(j.Groups, func(x Group) bool { return x.Name == g.Name }) {
				item.Find(yamlfile.Broken, "%s has the name %s, which another group has: choose another", item.Name, g.Name)
			}
			j.Groups = append(j.Groups, *g)
		}
	}
	if n := j.Members(); n > MaxMembers {
		groups.Find(yamlfile.Broken, "the groups have %d replicas together, at most %d are placed", n, MaxMembers)
	}
}

func readGroup(v yamlfile.Value, j *Job) *Group {
	f := v.Fields(yamlfile.Broken, groupNames...)
	if f == nil {
		return nil
	}
	g := &Group{
		Name:     wanted(f, "name", groupForm, "1 to 31 of a-z 0-9 - and begin with a letter or digit"),
		Replicas: wholeNumber(given(f, "replicas"), 1, 1, MaxMembers),
		Settings: settings(f, j.aboveGroups()),
	}
	if least := given(f, "min_success"); !least.Null() && least.Node.Value != All {
		g.MinSuccess = wholeNumber(least, 0, 1, g.Replicas)
	}
	placeable(f, g.Settings)
	return g
}

// placeable says what a process of the host can't have.
func placeable(f *yamlfile.Fields, s Settings) {
	if s.Image != "" {
		return
	}
	if len(s.Volumes) > 0 {
		v := given(f, "volumes")
		v.Find(yamlfile.Broken, "%s are mounted in containers: name an image", v.Name)
	}
	if s.Resources.Shm > 0 {
		v := given(f, "resources")
		v.Find(yamlfile.Broken, "%s.shm is that of a container: name an image", v.Name)
	}
}

// network reads which network members share. Processes have that of their host, whoever says what.
func network(f *yamlfile.Fields, j *Job) string {
	v := given(f, "network")
	s := formed(v, volumeForm, volumeRule)
	switch {
	case s == None, s == "bridge", s == "default":
		v.Find(yamlfile.Broken, "network is %s: write private, host, or the name of an overlay that the hosts have", s)
	case s == "" && j.processes():
		return Host
	case s == "":
		return Private
	case s != Host && j.processes():
		v.Find(yamlfile.Broken, "network is %s, and a process is in that of its host: write host, or name an image for each group", s)
	}
	return s
}

// processes reports whether some members are processes of their host and no containers.
func (j *Job) processes() bool {
	if len(j.Groups) == 0 {
		return j.Image == ""
	}
	return slices.ContainsFunc(j.Groups, func(g Group) bool { return g.Image == "" })
}

// ends reads how long a job lives whatever its programs do.
func ends(v yamlfile.Value) time.Duration {
	if v.Null() || v.Node.Value == "entry" {
		return 0
	}
	if v.Kind() != "a map" {
		v.Find(yamlfile.Broken, "ends is %s: write entry, or {ttl: 4h}", v.Kind())
		return 0
	}
	f := v.Fields(yamlfile.Broken, "ttl")
	if f == nil {
		return 0
	}
	return duration(f.Get("ttl", yamlfile.Broken), 0, time.Second, MaxTimeout)
}

func artifacts(v yamlfile.Value) (a Artifacts) {
	if v.Null() {
		return a
	}
	f := v.Fields(yamlfile.Broken, "dir", "to", "every")
	if f == nil {
		return a
	}
	a.Dir = target(f.Get("dir", yamlfile.Broken))
	a.To = formed(given(f, "to"), volumeForm, volumeRule)
	a.Every = duration(given(f, "every"), DefaultEvery, 5*time.Second, 24*time.Hour)
	return a
}

// beside reads which SL runs rank 0 itself.
func beside(v yamlfile.Value) (b Beside) {
	if v.Null() {
		return b
	}
	f := v.Fields(yamlfile.Broken, "sl", "address", "port", "epoch")
	if f == nil {
		return b
	}
	sl := f.Get("sl", yamlfile.Broken)
	if b.SL = line(sl); naming.CheckNode(b.SL) != nil {
		sl.Find(yamlfile.Broken, "%s is %q: write the name of an SL, as `swarmctl list nodes` has it", sl.Name, yamlfile.Excerpt(b.SL))
	}
	b.Address = wanted(f, "address", addressForm, "an IP address or a host name")
	b.Port = wholeNumber(f.Get("port", yamlfile.Broken), 0, 1, 65535)
	b.Epoch = wholeNumber(given(f, "epoch"), 0, 0, maxRestarts)
	return b
}

// Forms of names.
var (
	addressForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:-]{0,252}$`)
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	groupForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)
	volumeForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
	varForm     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	imageForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$`)
)

const volumeRule = "1 to 63 of A-Z a-z 0-9 _ . - and begin with a letter or digit"
