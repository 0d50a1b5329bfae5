// Package procs finds processes of this host as its kernel shows them, and kills those that are meant and no others.
package procs

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of what is read of a process.
const (
	maxEnviron = 4 << 20 // bytes of its environment
	maxStat    = 4 << 10
)

// All are the processes of this host.
func All() (all []int, err error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// Read reads a file of a process. One that has gone has none.
func Read(pid int, name string, most int64) []byte {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return raw
}

// Children are the processes of which one is the parent.
func Children(parent int) (found []int, err error) {
	all, err := started(context.Background())
	return all[parent], err
}

// started are the processes of this host by their parents, as far as they can be read before ctx ends.
func started(ctx context.Context) (by map[int][]int, err error) {
	all, err := All()
	by = map[int][]int{}
	for _, pid := range all {
		if ctx.Err() != nil {
			return by, ctx.Err()
		}
		stat := Read(pid, "stat", maxStat)
		// The name stands in parentheses and may hold anything; behind it are the state and the parent.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			by[parent] = append(by[parent], pid)
		}
	}
	return by, err
}

// With are the processes that have a variable of this value in their environment, without this one.
func With(name, value string) (found []int, err error) {
	all, err := All()
	for _, pid := range all {
		if pid != os.Getpid() && has(pid, name+"="+value) {
			found = append(found, pid)
		}
	}
	return found, err
}

// has reports whether a process has a variable in its environment. One that has ended has none any more.
func has(pid int, variable string) bool {
	for kv := range bytes.SplitSeq(Read(pid, "environ", maxEnviron), []byte{0}) {
		if string(kv) == variable {
			return true
		}
	}
	return false
}
