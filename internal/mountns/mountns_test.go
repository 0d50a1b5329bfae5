package mountns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/mountns"
)

// nobody is a user whom no machine knows.
const nobody = 12345

// task is what the test binary does for a test, as another user perhaps.
type task struct {
	Binds  []mountns.Bind
	Script string // empty: Check
	Dir    string
	// Forbid has this kernel give the process no further user namespaces first.
	Forbid bool
}

// TestMain lets the test binary be the executable that a program is started by, and a user's process that starts one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == mountns.Command {
		os.Exit(mountns.Become(os.Args[2:]))
	}
	text, ok := os.LookupEnv("MOUNTNS_TASK")
	if !ok {
		os.Exit(m.Run())
	}
	var do task
	if err := json.Unmarshal([]byte(text), &do); err != nil {
		panic(err)
	}
	os.Exit(do.run())
}

func (do task) run() int {
	if do.Forbid {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0o600); err != nil {
			panic(err)
		}
	}
	if do.Script == "" {
		if err := mountns.Check(context.Background(), do.Binds); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	cmd := exec.Command("sh", "-c", do.Script, "name", "an argument")
	cmd.Dir, cmd.Stdout, cmd.Stderr = do.Dir, os.Stdout, os.Stderr
	if err := mountns.Wrap(cmd, do.Binds); err != nil {
		fmt.Println(err)
		return 1
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		return 128 + int(exit.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	if err != nil && exit == nil {
		fmt.Println(err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// as does a task as a user, and returns what was printed and the exit code. It skips where this machine can not.
func as(t *testing.T, uid int, do task) (string, int) {
	t.Helper()
	text, err := json.Marshal(do)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Dir, cmd.Env = "/", []string{"MOUNTNS_TASK=" + string(text), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if do.Forbid { // in a namespace of the process's own, whose limits are its own
		ids := []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE}}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true}
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// users are those whom this machine lets mount: this one, and if it is root somebody else too.
func users(t *testing.T) []int {
	t.Helper()
	list := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		list = append(list, nobody)
	}
	dir := public(t)
	list = slices.DeleteFunc(list, func(uid int) bool {
		said, code := as(t, uid, task{Binds: []mountns.Bind{{Source: dir, Target: "/no-such-directory/at/all"}}})
		if code == 0 {
			return false
		}
		if said == "" || strings.Count(said, "\n") != 1 {
			t.Errorf("user %d can not mount, and is told %q, want one line", uid, said)
		}
		t.Logf("user %d can not mount on this machine: %s", uid, said)
		return true
	})
	if len(list) == 0 {
		t.Skip("this machine lets this user make no mount namespace")
	}
	return list
}

// public makes a directory that every user can go to.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mountns")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// folder makes a directory in dir with one file that holds its name.
func folder(t *testing.T, dir, name string) string {
	t.Helper()
	made := filepath.Join(dir, name)
	if err := os.Mkdir(made, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(made, 0o777), os.WriteFile(filepath.Join(made, "name"), []byte(name+"\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return made
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestAProgramSeesItsDirectories: at paths whose parents this machine does not have, with all else as it was, and the machine as it was.
func TestAProgramSeesItsDirectories(t *testing.T) {
	for _, uid := range users(t) {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			dir, before := public(t), entries(t, "/")
			data, model := folder(t, dir, "data"), folder(t, dir, "model")
			out, code := as(t, uid, task{
				Binds: []mountns.Bind{
					{Source: data, Target: "/platform-of-a-test/swarmml/data", ReadOnly: true},
					{Source: model, Target: "/platform-of-a-test/swarmml/model"},
				},
				Dir: model,
				Script: `
					echo "$1; user $(id -u) $(id -g); in $PWD, in truth $(pwd -P); of $(ps -o comm= -p $$)"
					cat /platform-of-a-test/swarmml/data/name /platform-of-a-test/swarmml/model/name
					(echo no >/platform-of-a-test/swarmml/data/new) 2>/dev/null || echo data is read-only
					(echo no >/new-in-root) 2>/dev/null || echo the root is read-only
					echo yes >/platform-of-a-test/swarmml/model/new && cat new
					[ -c /dev/null ] && [ -d /proc/self ] && [ -d /sys/class ] && [ "$(readlink /bin)" = usr/bin -o -d /bin ] && echo all else
					echo "$(ls -A / | grep -cvxF platform-of-a-test)"
					mv new newer; exit 7`,
			})
			want := fmt.Sprintf("an argument; user %d %d; in %s, in truth %s; of sh\ndata\nmodel\ndata is read-only\nthe root is read-only\nyes\nall else\n%d\n",
				uid, uid, model, model, len(before))
			if diff := cmp.Diff(out, want); diff != "" || code != 7 {
				t.Errorf("exit code %d, want 7; output (-got +want):\n%s", code, diff)
			}
			if diff := cmp.Diff(entries(t, "/"), before); diff != "" {
				t.Errorf("the machine's root changed (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(entries(t, model), []string{"name", "newer"}); diff != "" {
				t.Errorf("the model directory (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(entries(t, data), []string{"name"}); diff != "" {
				t.Errorf("the data directory (-got +want):\n%s", diff)
			}
		})
	}
}

// TestTwoProgramsAtOnce: each sees its own directory at the same path, while both run.
func TestTwoProgramsAtOnce(t *testing.T) {
	for _, uid := range users(t) {
		dir := public(t)
		pipe := filepath.Join(dir, "pipe")
		if err := errors.Join(syscall.Mkfifo(pipe, 0o666), os.Chmod(pipe, 0o666)); err != nil {
			t.Fatal(err)
		}
		at := func(source string) []mountns.Bind {
			return []mountns.Bind{{Source: folder(t, dir, source), Target: "/platform-of-a-test/model"}}
		}
		first, second := task{Binds: at("first"), Dir: "/", Script: "cat /platform-of-a-test/model/name; echo >" + pipe}, at("second")
		said := make(chan string)
		go func() {
			out, _ := as(t, uid, first)
			said <- out
		}()
		out, code := as(t, uid, task{Binds: second, Dir: "/", Script: "read x <" + pipe + "; cat /platform-of-a-test/model/name"})
		if other := <-said; out != "second\n" || other != "first\n" || code != 0 {
			t.Errorf("user %d: they saw %q and %q, exit code %d", uid, other, out, code)
		}
	}
}

// TestMountPoints: what of the machine stands in the way.
func TestMountPoints(t *testing.T) {
	for _, uid := range users(t) {
		dir := public(t)
		source, there, sticky := folder(t, dir, "source"), folder(t, dir, "there"), folder(t, dir, "sticky")
		if err := errors.Join(os.Chmod(there, 0o755), os.Chmod(sticky, 0o777|os.ModeSticky),
			os.Symlink(there, filepath.Join(dir, "link")), os.Symlink("/etc", filepath.Join(sticky, "link"))); err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			target, script, want string
			code                 int
		}{
			"is there":                  {there, "cat there/name", "source\n", 0},
			"its parent is there":       {there + "/a/b", "cat there/name there/a/b/name; ls there", "there\nsource\na\nname\n", 0},
			"by a link":                 {dir + "/link/a", "cat there/a/name", "source\n", 0},
			"where everybody may write": {sticky + "/a/b", "cat sticky/name sticky/a/b/name; echo new >sticky/c", "sticky\nsource\n", 0},
			"somebody's link":           {sticky + "/link", "", fmt.Sprintf("make mount point %[1]s: %[1]s is a link in a directory that everybody may write\n", sticky+"/link"), 1},
			"a file":                    {there + "/name", "", fmt.Sprintf("make mount point %[1]s: %[1]s is not a directory\n", there+"/name"), 1},
			"no path":                   {"a/../b", "", `bind of "` + source + `" at "a/../b": paths must be absolute and clean` + "\n", 1},
		} {
			t.Run(fmt.Sprint(name, " for user ", uid), func(t *testing.T) {
				out, code := as(t, uid, task{Binds: []mountns.Bind{{Source: source, Target: tt.target}}, Dir: dir, Script: tt.script})
				if diff := cmp.Diff(out, tt.want); diff != "" || code != tt.code {
					t.Errorf("exit code %d, want %d; output (-got +want):\n%s", code, tt.code, diff)
				}
			})
		}
		if diff := cmp.Diff([][]string{entries(t, there), entries(t, sticky)}, [][]string{{"name"}, {"a", "c", "link", "name"}}); diff != "" {
			t.Errorf("the machine's directories (-got +want):\n%s", diff)
		}
	}
}

// TestSignalsAndRights: a signal ends the program itself, and it has no more rights than its user.
func TestSignalsAndRights(t *testing.T) {
	for _, uid := range users(t) {
		dir := public(t)
		binds := []mountns.Bind{{Source: folder(t, dir, "source"), Target: "/platform-of-a-test/model"}}
		if out, code := as(t, uid, task{Binds: binds, Dir: "/", Script: "kill -TERM $$"}); code != 143 {
			t.Errorf("user %d: exit code %d, want 143; output %q", uid, code, out)
		}
		if uid == 0 {
			continue
		}
		out, code := as(t, uid, task{Binds: binds, Dir: "/", Script: "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u; umount /platform-of-a-test/model 2>/dev/null || echo no"})
		if out != "0000000000000000\nno\n" || code != 0 {
			t.Errorf("user %d: rights, and whether it may unmount: %q, exit code %d", uid, out, code)
		}
	}
}

// TestAKernelThatGivesNoNamespace: one line says so, and nothing is started.
func TestAKernelThatGivesNoNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take another user's namespaces away")
	}
	binds := []mountns.Bind{{Source: public(t), Target: "/platform-of-a-test/model"}}
	for script, want := range map[string]string{"": "sysctl user.max_user_namespaces", "echo started": "no space left on device"} {
		out, code := as(t, nobody, task{Forbid: true, Binds: binds, Script: script})
		if code != 1 || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("script %q: got %q and exit code %d, want one line with %q and 1", script, out, code, want)
		}
	}
}

// TestWhatBecomeIsNotCalledFor: somebody who types the command.
func TestWhatBecomeIsNotCalledFor(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", mountns.Command, "{")
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	if err == nil || string(out) != "mount-and-exec is for swarmd itself\n" {
		t.Errorf("got %q and error %v", out, err)
	}
}
