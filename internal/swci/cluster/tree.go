package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process identifies one process of this machine for good: a PID alone is used again.
type process struct {
	pid   int
	start string // clock ticks after boot
}

// statFields returns the fields of /proc/PID/stat after the command's name: index 0 is the state.
func statFields(pid int) ([]string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, fmt.Errorf("read process status: %w", err)
	}
	// The name stands in parentheses and may contain any byte, parentheses included.
	_, rest, found := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 22 {
		return nil, fmt.Errorf("read process status of %d: too short", pid)
	}
	return fields, nil
}

// CPUTicks returns the processor time that a process has used, user and system, in clock ticks of 1/100 s.
func CPUTicks(pid int) (int64, error) {
	f, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("read process status of %d: bad number", pid)
	}
	return user + system, nil
}

// descendants returns all living processes below the given ones, these included.
func descendants(roots []int) []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	start := map[int]string{}
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		f, err := statFields(pid)
		if err != nil || f[0] == "Z" {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil {
			children[parent] = append(children[parent], pid)
			start[pid] = f[19]
		}
	}
	var out []process
	todo := append([]int(nil), roots...)
	for len(todo) > 0 {
		pid := todo[0]
		todo = append(todo[1:], children[pid]...)
		if s, alive := start[pid]; alive {
			out = append(out, process{pid, s})
		}
	}
	return out
}

// killLeft ends those of processes that are still the same and still alive, and returns when they are gone.
func killLeft(processes []process) {
	alive := func(p process) bool {
		f, err := statFields(p.pid)
		return err == nil && f[19] == p.start && f[0] != "Z"
	}
	for _, p := range processes {
		if alive(p) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	// They are not our children, so nothing tells when the kernel is done with them. It always is, soon.
	for range 200 {
		if !slices.ContainsFunc(processes, alive) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// marked returns all processes whose environment has the entry. Children inherit it, so it finds those whose parents are
// gone too.
func marked(entry string) []process {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var out []process
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(data), "\x00"), entry) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if f, err := statFields(pid); err == nil {
			out = append(out, process{pid, f[19]})
		}
	}
	return out
}
