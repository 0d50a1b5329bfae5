package taskfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// head is a task file's without its body.
const head = "Name: x\nTaskType: %s\nAuthor: a\nPrereq: ROOTTASK\nOutcome: o\nBody:\n"

func runSwarm(lines ...string) string {
	return fmt.Sprintf(head, "RUN_SWARM") + "  " + strings.Join(lines, "\n  ") + "\n"
}

// Each file is refused with one line that names the file's line and what to do.
func TestRefusesBadTasks(t *testing.T) {
	pull := fmt.Sprintf(head, "PULL_IMAGE") + "  OrgAndReg: o\n  RepoName: r\n"
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "f:1: the file is empty"},
		{"comment alone", "# nothing\n", "f:1: the file is empty"},
		{"null", "---\n", "f:2: the file is null: write its fields, one a line: Name, TaskType, Author, Prereq, Outcome, Body"},
		{"list", "- Name: x\n", "f:1: the file is a list: write its fields, one a line: Name, TaskType, Author, Prereq, Outcome, Body"},
		{"no YAML", "Name: x\nBody: [\n", "f:2: it is no YAML: did not find expected node content"},
		{"tab", "Name: x\n\tAuthor: y\n", "f:2: it is no YAML: found a tab character that violates indentation; use blanks, not tabs, before a field"},
		{"unquoted", "Name: @x\n", "f:1: it is no YAML: found character that cannot start any token; use blanks, not tabs, before a field, and quote a text that begins with @, ` or %"},
		{"no UTF-8", "Name: x\nAuthor: J\xf6rg\n", "f:2: this is not UTF-8: save the file as UTF-8"},
		{"a colon in text", "Name: x\nAuthor: a: b\n", "f:2: it is no YAML: mapping values are not allowed in this context; quote a text that has a colon before a blank, and indent fields alike"},
		{"blanks of a web page", "Name: x\nAuthor:\u00a0a\nPrereq: y\n", "f:2: it is no YAML: could not find expected ':'; the file has blanks of a web page, which do not break (U+00A0): write plain ones"},
		{"the end of a DOS file", "Name: x\nAuthor: a\n\x1a", "f:3: it is no YAML: control characters are not allowed; leave it out"},
		{"a list for a command", runSwarm("Command: [a.py, --lr]", "Entrypoint: e", "WorkingDir: /w"), "f:7: Body.Command is a list: write text"},
		{"no entrypoint", runSwarm("Command: a.py", "Entrypoint: null", "WorkingDir: /w"), "f:8: Body.Entrypoint is empty: write text"},
		{"small letters", strings.Replace(pull, "Name: x", "name: x", 1), "f:1: unknown field name: did you mean Name?"},
		{"a field for anchors", "x-env: &env [A: 1]\n" + pull, "f:1: unknown field x-env: use Author, Body, Name, Outcome, Prereq or TaskType"},
		{"a variable that is a list", runSwarm("Command: a.py", "Entrypoint: e", "WorkingDir: /w", "Envvars: [H: [1, 2]]"), "f:10: H of Body.Envvars is a list: write text"},
		{"a name that is no word", strings.Replace(pull, "Name: x", "Name: tâche", 1), `f:1: Name is "tâche": use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or digit`},
		{"two documents", pull + "  Tag: t\n  Auth: null\n---\nName: y\n", "f:11: a second document begins: give each a file of its own"},
		{"unknown type", strings.Replace(pull, "PULL_IMAGE", "PULL_IMAGES", 1), `f:2: TaskType "PULL_IMAGES" is not known: did you mean PULL_IMAGE?`},
		{"a type of the documents alone", strings.Replace(pull, "PULL_IMAGE", "BUILD_SWARM", 1), `f:2: TaskType "BUILD_SWARM" is not known: did you mean MAKE_USER_CONTAINER?`},
		{"no type", strings.Replace(pull, "PULL_IMAGE", "", 1), `f:2: TaskType is empty: use MAKE_SWARM_USER_CONTENT, MAKE_USER_CONTAINER, PULL_IMAGE or RUN_SWARM`},
		{"far from any type", strings.Replace(pull, "PULL_IMAGE", "x", 1), `f:2: TaskType "x" is not known: use MAKE_SWARM_USER_CONTENT, MAKE_USER_CONTAINER, PULL_IMAGE or RUN_SWARM`},
		{"unknown field", strings.Replace(pull, "Author", "Athor", 1), "f:3: unknown field Athor: did you mean Author?"},
		{"unknown field of a body", pull + "  Tagg: t\n", "f:9: unknown field Tagg in Body: did you mean Tag?"},
		{"missing", strings.Replace(pull, "  RepoName: r\n", "", 1), "f:7: Body.RepoName is missing"},
		{"no body", "Name: x\nTaskType: PULL_IMAGE\nAuthor: a\nPrereq: ROOTTASK\nOutcome: o\n", "f:1: Body is missing"},
		{"null where text belongs", strings.Replace(pull, "RepoName: r", "RepoName:", 1), "f:8: Body.RepoName is empty: write text"},
		{"a map where text belongs", strings.Replace(pull, "RepoName: r", "RepoName: {a: b}", 1), "f:8: Body.RepoName is a map: write text, in quotes if it has a colon"},
		{"name", strings.Replace(pull, "Name: x", "Name: two words", 1), `f:1: Name is "two words": use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or digit`},
		{"the root task", strings.Replace(pull, "Name: x", "Name: ROOTTASK", 1), "f:1: Name is ROOTTASK, which every swarm has: choose another (and 1 more of its lines can't be read)"},
		{"its own prerequisite", strings.Replace(pull, "ROOTTASK", "x", 1), "f:4: Prereq is the task itself: name another, or ROOTTASK"},
		{"author", strings.Replace(pull, "Author: a", "Author: "+strings.Repeat("a", 161), 1), "f:3: Author has 161 bytes, at most 160 are kept"},
		{"a mark that hides", strings.Replace(pull, "Author: a", `Author: "a\u009db\u009c"`, 1), `f:3: Author has the control character '\u009d': leave it out`},
		{"a mark that reorders", strings.Replace(pull, "Author: a", `Author: "a\u202eb"`, 1), `f:3: Author has the control character '\u202e': leave it out`},
		{"control character", strings.Replace(pull, "Author: a", `Author: "a\u0007"`, 1), `f:3: Author has the control character '\a': leave it out`},
		{"long text", strings.Replace(pull, "RepoName: r", "RepoName: "+strings.Repeat("r", 5000), 1), "f:8: Body.RepoName has 5000 bytes, at most 4096 are read"},
		{"REMOTE", fmt.Sprintf(head, "MAKE_USER_CONTAINER") + "  BuildContext: null\n  BuildType: REMOTE\n  BuildSteps: [FROM a]\n", "f:8: Body.BuildType REMOTE was never made: use INLINE"},
		{"a step that is a map", fmt.Sprintf(head, "MAKE_USER_CONTAINER") + "  BuildContext: null\n  BuildType: INLINE\n  BuildSteps:\n  - ENV A: b\n", "f:10: Body.BuildSteps[0] is a map: write text, in quotes if it has a colon"},
		{"no steps", fmt.Sprintf(head, "MAKE_USER_CONTAINER") + "  BuildContext: null\n  BuildType: INLINE\n  BuildSteps: []\n", "f:9: Body.BuildSteps is empty: write lines of a Dockerfile"},
		{"operation", fmt.Sprintf(head, "MAKE_SWARM_USER_CONTENT") + "  ContentType: BUILDCONTENT\n  OpsList:\n  - {Operation: UNPACK, Target: a}\n", `f:9: Body.OpsList[0].Operation "UNPACK" is not known: use DOWNLOAD or EXTRACT`},
		{"variable", runSwarm("Command: c", "Entrypoint: e", "WorkingDir: /w", "Envvars: [\"A B\": 1]", "PrivateContent: null", "SharedContent: null"), `f:10: Body.Envvars has the name "A B": use one word without =`},
		{"mount", runSwarm("Command: c", "Entrypoint: e", "WorkingDir: /w", "Envvars: null", "PrivateContent: null", "SharedContent: [{Src: a, Tgt: b, MType: TMPFS}]"), `f:12: Body.SharedContent[0].MType "TMPFS" is not known: use BIND or VOLUME`},
		{"merge of text", pull + "  <<: text\n", "f:9: << is text: name a map, as <<: *NAME"},
		{"tag", "Name: !!python/object:os.system x\n", "f:1: the tag !!python/object:os.system is not supported: leave it out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			task, _, err := taskfile.ReadTask("f", []byte(tt.file))
			if task != nil || fmt.Sprint(err) != tt.want {
				t.Errorf("got %v, %v\nwant %s", task, err, tt.want)
			}
			if found := taskfile.LintTask("f", []byte(tt.file)); len(found) == 0 {
				t.Error("lint finds nothing")
			}
		})
	}
}

// What costs more than a task file can be worth is refused before it costs it.
func TestBoundsFiles(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"size", strings.Repeat("#", yamlfile.MaxFile+1), "f:1: the file has 1048577 bytes, at most 1048576 are read"},
		{"values", "[" + strings.Repeat("a,", 1<<16) + "]", "f:1: the file has more lists, maps and lines than anything that is read needs"},
		{"depth", strings.Repeat("[", 100) + strings.Repeat("]", 100), "f:1: more than 32 values are nested here"},
		{"great depth", strings.Repeat("[", 60000), "f:1: it is no YAML: exceeded max depth of 10000"},
		{"fields", "{" + strings.Repeat("a: b, ", 2000) + "}", "f:1: the file has 2000 fields, at most 1024 are read"},
		{"merges", "a: &a {" + strings.Repeat("x: y, ", 1000) + "}\nb: &b {<<: [" + strings.Repeat("*a, ", 1000) + "]}\ngroupname: {<<: [" + strings.Repeat("*b, ", 1000) + "]}\n<<: [" + strings.Repeat("*b, ", 1000) + "]\n", "aliases make this more than 65536 values: write them out"},
		{"a merge of itself", "groupname: g\nnodes: &n\n- slnodedef: &m\n    <<: *m\n", "write them out"},
		{"a list within itself", "groupname: g\nnodes: &n\n- slnodedef: *n\n", "f:2: nodes[0].slnodedef is a list"},
		{"aliases", "groupname: &a [x" + strings.Repeat(",x", 1000) + "]\ntaskrunner: t\nnetwork: n\nenvvars: null\nnodes: [&n {slnodedef: {usrcontaineropts: [&d {device: *a}" + strings.Repeat(",*d", 1000) + "]}}" + strings.Repeat(",*n", 1000) + "]\n", "values: write them out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said []string
			for _, f := range taskfile.LintProfile("f", []byte(tt.file)) {
				said = append(said, f.Error())
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, tt.want) {
				t.Errorf("got %.2000s\nwant %s", all, tt.want)
			}
			if _, _, err := taskfile.ReadProfile("f", []byte(tt.file)); err == nil {
				t.Error("it is read")
			}
		})
	}
}

func TestRefusesBadProfiles(t *testing.T) {
	raw := string(testdata(t, "profiles")["swop1_profile.yaml"])
	for _, tt := range []struct{ old, with, want string }{
		{"groupname: demo-swop1", "groupname: demo/swop1", `groupname is "demo/swop1"`},
		{"groupname: demo-swop1", "groupnam: demo-swop1", "f:1: unknown field groupnam: did you mean groupname?"},
		{"network: host-1-net", "", "f:1: network is missing"},
		{"policyuri: null", "", "f:1: policyuri is missing: write null, which accepts all tasks, or where the host's policy stands"},
		{"mgrtype: DOCKER", "mgrtype: PODMAN", `f:5: resourcemgr.mgrtype "PODMAN" is not known: use DOCKER`},
		{"port: 30304", "port: 70000", `f:16: apisrv.locator.port is a number "70000": give a number from 1 to 65535`},
		{"idx: 1", "idx: 0", "nodes[1] has idx 0, which another node has: count from 0"},
		{"idx: 1", "idx: one", `nodes[1].slnodedef.idx is text "one": give a number from 0 to 1024`},
		{"aType: CAPATH", "aType: CERTS", `aType "CERTS" is not known: did you mean CERT?`},
		{"mType: VOLUME", "mType: VOL", `mType "VOL" is not known: use BIND or VOLUME`},
		{"src: spire-agent-sock", "", "nodes[1].slnodedef.identity[0].attribute.src is missing"},
		{"        idx: 1\n", "        idx: 1\n    - slnodedef :\n      idx: 2\n    - slnodedef :\n        idx: 3\n", "nodes[2].slnodedef is empty: indent what belongs to it"},
	} {
		file := strings.Replace(raw, tt.old, tt.with, 1)
		if _, _, err := taskfile.ReadProfile("f", []byte(file)); file == raw || err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", tt.with, err, tt.want)
		}
	}
	for _, nodes := range []string{"nodes: []\n", "nodes:\n", ""} {
		file := raw[:strings.Index(raw, "nodes:\n")] + nodes
		if _, _, err := taskfile.ReadProfile("f", []byte(file)); err == nil {
			t.Errorf("%q is read", nodes)
		}
	}
}
