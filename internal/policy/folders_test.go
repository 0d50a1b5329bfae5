package policy_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/policy"
)

const withFolders = `sentences:
- Allow spiffe://a.example/swarm/swci/anna to use host
folders:
  data: /srv/data
  scratch: {path: /srv/scratch, use: write}
  runs: {path: /mnt/runs, use: runs}
  results: /mnt/runs
`

func TestFolders(t *testing.T) {
	p, err := policy.Parse("/etc/swarm/policy.yaml", []byte(withFolders), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := policy.Unwritten(policy.Ask, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Path("scratch") + p.Path("none"); got != "/srv/scratch" {
		t.Errorf("paths: %s", got)
	}
	for _, tt := range []struct {
		p            *policy.Policy
		asks         policy.Folder
		want, remedy string // no want: it is let through
	}{
		{p, policy.Folder{Name: "data", Use: policy.Read}, "", ""},
		{p, policy.Folder{Name: "scratch", Use: policy.Read}, "", ""},
		{p, policy.Folder{Name: "scratch", Use: policy.Write}, "", ""},
		{p, policy.Folder{Name: "runs", Use: policy.Runs}, "", ""},
		{p, policy.Folder{Name: "results", Use: policy.Read}, "", ""},
		{p, policy.Folder{Name: "dat", Use: policy.Read}, `it asks for volume "dat", and this host has none of that name`, "did you mean data? Else add dat: /PATH to folders in policy.yaml"},
		{p, policy.Folder{Name: "none", Use: policy.Runs}, `it asks for volume "none", and this host has none of that name`, "add none: {path: /PATH, use: runs} to folders in policy.yaml"},
		{p, policy.Folder{Name: "data", Use: policy.Write}, `volume "data" to write to, and this host gives it to read alone`, "leave :rw out in the job, or give it use: write"},
		{p, policy.Folder{Name: "scratch", Use: policy.Runs}, `volume "scratch" as its work_dir`, "give it use: runs under folders in policy.yaml"},
		{p, policy.Folder{Name: "runs", Use: policy.Read}, `gives as a work_dir alone`, "name its path once more"},
		{ask, policy.Folder{Name: "data", Use: policy.Read}, "this host has no policy that names folders", "start the host with a policy that has data: /PATH under folders"},
	} {
		d := tt.p.Decide(policy.Request{Submitter: "spiffe://a.example/swarm/swci/anna", Type: "RUN_JOB", Runtime: "docker", Held: true, Folders: []policy.Folder{tt.asks}})
		if (d.Verdict == policy.Refused) != (tt.want != "") || !strings.Contains(d.Reason, tt.want) || !strings.Contains(d.Remedy, tt.remedy) {
			t.Errorf("%+v: %s", tt.asks, d)
		}
		if strings.Contains(d.Reason, "/srv") || strings.Contains(d.Reason, "/mnt") || strings.Contains(d.Remedy, "/srv") {
			t.Errorf("%+v tells where folders are: %s", tt.asks, d)
		}
	}
}

func TestFoldersMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"  - /srv":                               "p:3: folders has names and paths",
		"  a b: /srv":                            `p:3: "a b" is no name of a folder`,
		"  a: srv":                               `p:3: "srv": want an absolute path`,
		"  a: /":                                 "want a directory below /",
		"  a: /x:y":                              "want a directory below / whose name has no colon",
		"  a: {use: write}":                      "p:3: it has no path",
		"  a: {path: /x, use: all}":              `use is "all": want read, write or runs`,
		"  a: {path: /x, user: all}":             "did you mean use?",
		"  a: /x\n  a: /y":                       "p:4: a stands there twice",
		"  a: /x\n  b: {path: /x/y, use: runs}":  "p:4: b lies in the folder of a, or that one in it",
		"  a: {path: /x/y, use: write}\n  b: /x": "p:4: b lies in the folder of a, or that one in it",
		"  a: {path: /x, use: write}\n  b: {path: /x, use: runs}": "p:4: b lies in the folder of a",
	} {
		_, err := policy.Parse("p", []byte("sentences: []\nfolders:\n"+line+"\n"), "a.example")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	if _, err := policy.Parse("p", []byte("folders:\n  a: /x\n  b: /x/y\n  c: {path: /x, use: read}\n"), "a.example"); err != nil {
		t.Errorf("folders that nobody writes to: %v", err)
	}
}
