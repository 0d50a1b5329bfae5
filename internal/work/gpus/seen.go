package gpus

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gpuForm is a GPU as CUDA_VISIBLE_DEVICES and engines name it.
var gpuForm = regexp.MustCompile(`^([0-9]{1,4}|(GPU|MIG)-[0-9A-Za-z/-]{1,100})$`)

// Seen are the names of this host's GPUs by which programs are given them: those that its owner has the SWOP see, or all.
func Seen(lookup func(string) (string, bool)) []string {
	devices, _ := filepath.Glob("/dev/nvidia[0-9]*") // a bad pattern is its only error
	return seenOf(len(devices), lookup)
}

// seenOf are those of a host with so many devices of which a program sees what its variable names: all where it is not set, and none where it is
// empty. What follows a name that is none it does not see.
func seenOf(devices int, lookup func(string) (string, bool)) (all []string) {
	names, set := lookup("CUDA_VISIBLE_DEVICES")
	if !set {
		for i := range devices {
			all = append(all, strconv.Itoa(i))
		}
		return all
	}
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); devices == 0 || !gpuForm.MatchString(name) {
			break
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
