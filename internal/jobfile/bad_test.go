package jobfile_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Each file is refused with one line that names the file's line and what to do.
func TestRefusesBadJobs(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"", "f:1: the file is empty"},
		{"- name: x", "f:1: the file is a list: write its fields, one a line: name, framework, source, replicas, groups, network, work_dir, artifacts, start, done_when, ends, timeout, ready_timeout, grace, restarts, beside, compat, image, command, args, env, secrets, resources, hosts, volumes, ready"},
		{"name: x\nreplica: 2", "f:2: unknown field replica: did you mean replicas?"},
		{"name: x\nname: y", "f:2: name stands in line 1 too: write it once"},
		{"command: a", "f:1: name is missing"},
		{"name:", "f:1: name is empty: write 1 to 63 of a-z 0-9 - and begin with a letter or digit"},
		{"name: Nightly", `f:1: name is "Nightly": use 1 to 63 of a-z 0-9 - and begin with a letter or digit`},
		{"name: x\nframework: torch", `f:2: framework "torch" is not known: did you mean pytorch?`},
		{"name: x\nframework: mpi", `f:2: framework "mpi" is not known: use dask, horovod, none, pytorch, ray or tensorflow`},
		{"name: x\nreplicas: 0", `f:2: replicas is a number "0": give a number from 1 to 1024`},
		{"name: x\nreplicas: 2..4", `f:2: replicas is text "2..4": give a number from 1 to 1024`},
		{"name: x\nreplicas: 2\ngroups: [{name: a}]", "f:2: replicas and groups stand both here: give each group its replicas"},
		{"name: x\ngroups: []", "f:2: groups has 0 items: write 1 to 16"},
		{"name: x\ngroups: [{name: a}, {name: a}]", "f:2: groups[1] has the name a, which another group has: choose another"},
		{"name: x\ngroups:\n- {name: a, replicas: 1000}\n- {name: b, replicas: 1000}", "f:3: the groups have 2000 replicas together, at most 1024 are placed"},
		{"name: x\ngroups:\n- {name: a, min_success: 2}", `f:3: groups[0].min_success is a number "2": give a number from 1 to 1`},
		{"name: x\ngroups: [{name: a, timeout: 1h}]", "f:2: unknown field timeout in groups[0]: use args, command, env, hosts, image, min_success, name, ready, replicas, resources, secrets or volumes"},
		{"name: x\ntimeout: 31d", "f:2: timeout is 31d: give 1s to 30d"},
		{"name: x\ntimeout: 2 days", `f:2: timeout is "2 days": write a time as 30s, 10m, 1h30m or 2d`},
		{"name: x\ngrace: 1h", "f:2: grace is 1h: give 0s to 10m"},
		{"name: x\nends: never", "f:2: ends is text: write entry, or {ttl: 4h}"},
		{"name: x\nends: {ttl: 4h}\ntimeout: 1h", "f:2: ends.ttl is 4h and timeout 1h: let it live shorter than that"},
		{"name: x\nends: {ttl: 1h}\ntimeout: 1h", "f:2: ends.ttl is 1h and timeout 1h: let it live shorter than that"},
		{"name: x\nends: {ttl: 30d}", "f:2: ends.ttl is 30d and timeout 30d: let it live shorter than that"},
		{"name: x\ncommand: []", "f:2: command is empty: write a program with its arguments"},
		{"name: x\ncommand: sh -c 'a", "f:2: command: a quote is not closed: write a list with one word in each item"},
		{"name: x\ncommand: [sh, -c, 'echo ${A:-b}']", `f:2: command[2] is "echo ${A:-b}": it has ${ without a name and }: write ${NAME}, or $$ for a $ of the program's own`},
		{"name: x\ncommand: [sh, -c, \"echo ok \\u009d; rm -rf data \\u009c\"]", `f:2: command[2] has the control character '\u009d': leave it out`},
		{"name: x\ncommand: [sh, -c, \"echo \\u202e1\"]", `f:2: command[2] has the control character '\u202e': leave it out`},
		{"name: x\nenv: {A: \"\\u2067\"}", `f:2: env.A has the control character '\u2067': leave it out`},
		{"name: x\nenv: [A=b]", "f:2: env is a list: write a map, as NAME: value"},
		{"name: x\nenv: {A-B: c}", `f:2: env has the name "A-B": use letters, digits and _`},
		{"name: x\nenv:\n  A: b\n  A: c", "f:4: env has A twice: write it once"},
		{"name: x\nenv: {A: [1]}", "f:2: env.A is a list: write text"},
		{"name: x\nsecrets: [a b]", `f:2: secrets[0] is "a b": use the name of a secret: letters, digits and _; its value stays on the hosts`},
		{"name: x\nsecrets: [A, {name: A, as: file}]", `f:2: secrets[1] is "A", which stands there before: write it once`},
		{"name: x\nresources: {memory: 4}", `f:2: resources.memory is "4": write a size with its unit, as 512MB, 4GB or 1.5GiB`},
		{"name: x\nresources: {memory: 2000TB}", `f:2: resources.memory is "2000TB": no host has that much: write a smaller size`},
		{"name: x\nresources: {cpu: 1e9}", `f:2: resources.cpu is "1e9": write a number of CPUs, as 2 or 0.5`},
		{"name: x\nresources: {cpus: 2}", "f:2: unknown field cpus in resources: did you mean cpu?"},
		{"name: x\nresources: {shm: 1GB}", "f:2: resources.shm is that of a container: name an image"},
		{"name: x\nhosts: h-1", "f:2: hosts is text: write a list, with - before each item"},
		{"name: x\nhosts: [h-1, h-1]", "f:2: hosts[1] is h-1, which stands there before: write it once"},
		{"name: x\nhosts: [a b]", "f:2: hosts[0] is \"a b\": write the name of a host, as `swarmctl list nodes` has it"},
		{"name: x\nimage: i\nvolumes: [/data:/data]", `f:3: volumes[0] is "/data:/data": write NAME:/path, or NAME:/path:rw where it is written to; a host's policy says which folder NAME is`},
		{"name: x\nimage: i\nvolumes: ['d:/a/../etc']", `f:3: volumes[0] is "/a/../etc": write an absolute path without . and .., outside of /proc, /sys, /dev and /run`},
		{"name: x\nimage: i\nvolumes: ['d:/proc/1']", `f:3: volumes[0] is "/proc/1": write an absolute path without . and .., outside of /proc, /sys, /dev and /run`},
		{"name: x\nimage: i\nvolumes: ['d:/a', 'e:/a:rw']", "f:3: volumes[1] is at /a, where another volume is: choose another path"},
		{"name: x\nvolumes: ['d:/a']", "f:2: volumes are mounted in containers: name an image"},
		{"name: x\nimage: -v /:/host", `f:2: image is "-v /:/host": use the name of an image, as torch:2 or with its digest`},
		{"name: x\nnetwork: bridge", "f:2: network is bridge: write private, host, or the name of an overlay that the hosts have"},
		{"name: x\nnetwork: private", "f:2: network is private, and a process is in that of its host: write host, or name an image for each group"},
		{"name: x\nnetwork: fast\ngroups: [{name: a, image: i}, {name: b}]", "f:2: network is fast, and a process is in that of its host: write host, or name an image for each group"},
		{"name: x\nready: {port: 1, timeout: 1m}", "f:2: ready.timeout is 1m: give 1s to 20s"},
		{"name: x\nready: {period: 1s}", "f:2: ready needs a command or a port, one of them"},
		{"name: x\nready: {port: 1, command: a}", "f:2: ready needs a command or a port, one of them"},
		{"name: x\nartifacts: {to: s3}", "f:2: artifacts.dir is missing"},
		{"name: x\nartifacts: {dir: opt}", `f:2: artifacts.dir is "opt": write an absolute path without . and .., outside of /proc, /sys, /dev and /run`},
		{"name: x\nbeside: {sl: sl 1, address: h, port: 1}", "f:2: beside.sl is \"sl 1\": write the name of an SL, as `swarmctl list nodes` has it"},
		{"name: x\nbeside: {sl: sl-1, address: a b, port: 1}", "f:2: beside.address is \"a b\": use an IP address or a host name"},
		{"name: x\nbeside: {sl: sl-1, address: h}", "f:2: beside.port is missing"},
		{"name: x\nstart: inorder", `f:2: start "inorder" is not known: did you mean in-order?`},
		{"name: ${A}", `f:1: name is "${A}": use 1 to 63 of a-z 0-9 - and begin with a letter or digit`},
		{"name: x\ncompat: oracle", `f:2: compat "oracle" is not known: use oci`},
		{"name: x\ncommand: a\nenv: {A: [1]}\nhosts: h", "f:3: env.A is a list: write text (and 1 more of its lines are wrong)"},
	} {
		if j, err := jobfile.Read("f", []byte(tt.file)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v, %v\nwant %s", tt.file, j, err, tt.want)
		}
	}
}

// What is no body is refused, however it was made.
func TestRefusesBadBodies(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{"name: x\nsource: here\n", "the job's source is a folder of another host: its files are missing"},
		{"name: x\nnope: 1\n", "line 2: unknown field nope"},
		{"name: x\n--- source\n", "it has no files"},
		{"name: x\n--- source\nhello\n", `source: "hello" is no file: write MODE text|base64 SIZE PATH`},
		{"name: x\n--- source\n644 text 5 a\nabc\n", "source: a: the file is shorter than its head says"},
		{"name: x\n--- source\n644 base64 999999 a\nabc\n", "source: a: the file is shorter than its head says"},
		{"name: x\n--- source\n644 text 2 ../a\nb\n", `it has a file with the name "../a"`},
		{"name: x\n--- source\n644 text 2 /a\nb\n", `it has a file with the name "/a"`},
		{"name: x\n--- source\n644 text 2 b\nb\n644 text 2 a\nb\n", "a stands behind b"},
		{"name: x\n--- source\n644 text 2 a\nb\n644 text 2 a/b\nb\n", "a is a file and a folder"},
		{"name: x\n--- source\n644 text 1 a\nb", "source: a: it is no text: write it in base64"},
		{"name: x\n--- source\n644 text 7 a\na\u009d;\u009c\n", "source: a: it is no text: write it in base64"},
		{"name: x\n--- source\n644 text 4 a\n\u202e\n", "source: a: it is no text: write it in base64"},
		{"name: x\n--- source\n644 base64 2 a\nYQo=\n", "source: a: it is not in base64 as it is written, or it is text"},
		{strings.Repeat("#", 1<<20+1), "the job has 1048577 bytes, at most 1048576 are read"},
	} {
		if _, err := jobfile.Decode([]byte(tt.body)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%.100s\ngot  %v\nwant %s", tt.body, err, tt.want)
		}
	}
}

// A source that is too large as it is written is refused, not only one that is too large as it is.
func TestBoundsBody(t *testing.T) {
	j := read(t, "name: x\n")
	j.Source = []jobfile.File{{Path: "a", Data: make([]byte, 900_000)}}
	if _, err := j.Encode(); err == nil || !strings.Contains(err.Error(), "when it is written out, at most 1048576 are kept") {
		t.Error(err)
	}
	j.Source = []jobfile.File{{Path: "a", Data: []byte(strings.Repeat("\n", 70_000))}}
	if _, err := j.Encode(); err == nil || !strings.Contains(err.Error(), "more than 65536 lines") {
		t.Error(err)
	}
}

// Tasks are written in requests that have room for short lines: a file with a long one travels in base64, and a value that is one is refused.
func TestBoundsLines(t *testing.T) {
	j := read(t, "name: x\nenv: {A: b}\n")
	j.Source = []jobfile.File{{Path: "a.json", Data: []byte(strings.Repeat("<", 16<<10) + "\n")}}
	body, err := j.Encode()
	if err != nil || !strings.Contains(string(body), "644 base64 16385 a.json\n") {
		t.Fatal(err)
	}
	if again, err := jobfile.Decode(body); err != nil || !bytes.Equal(again.Source[0].Data, j.Source[0].Data) {
		t.Error(err)
	}
	j.Env[0].Value = strings.Repeat("<", 16<<10)
	if _, err := j.Encode(); err == nil || !strings.Contains(err.Error(), "more than 16384 bytes in one line: put it into a file of the source") {
		t.Error(err)
	}
}

// tooLarge are jobs of which one map has more fields than are read, each in another place.
func tooLarge() (files []string) {
	large := strings.TrimSuffix(strings.Repeat("a: 1, ", yamlfile.MaxItems+1), ", ")
	for _, file := range []string{"name: x\nends: {%s}", "name: x\nsecrets: [{%s}]", "name: x\nresources: {%s}", "name: x\nready: {%s}", "name: x\nartifacts: {%s}", "name: x\ngroups: [{%s}]", "{%s}"} {
		files = append(files, fmt.Sprintf(file, large))
	}
	return files
}

// A map of any size is refused with words: whoever is asked to run the job reads it.
func TestRefusesLargeMaps(t *testing.T) {
	for _, file := range tooLarge() {
		if _, err := jobfile.Decode([]byte(file)); err == nil || !strings.Contains(err.Error(), "has 1025 fields, at most 1024 are read") {
			t.Errorf("%.40s: %v", file, err)
		}
	}
}
