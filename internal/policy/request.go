package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/policy/sentence"
	"github.com/swarmd/swarmd/internal/suggest"
)

// Process is the runtime of tasks without containers.
const Process = "process"

// Request is a task that a host is asked to carry out. Of paths, networks and the like it has what the task names: what the host's
// own profile says is its owner's choice already.
type Request struct {
	Submitter  string // SPIFFE ID, as the host has verified it
	Swarm      string // the swarm's ID
	Taskrunner string

	Task   string // its name
	Type   string // such as RUN_SWARM
	Digest string // 64 hex digits, of the finalised task
	// Outcome is the name that the task gives to what it makes.
	Outcome string
	Image   Image // that it runs or fetches; the zero value: none
	// AnyImage has everything that sentences say of the image's digest hold, and of its name if it has none: nobody has looked yet which one it is.
	// What is refused then no image can have.
	AnyImage bool
	// ContentHost is HOST or HOST:PORT from which it has a file fetched; empty: none.
	ContentHost string

	Runtime string // docker, podman or process
	Local   bool   // the host belongs to a swarm on one machine that swarmctl local started

	CPUs   float64 // 0: it does not say
	Memory int64   // bytes; 0: it does not say
	GPUs   int     // that the host's profile gives it
	Disk   int64   // bytes that members of jobs say they write
	Hours  float64 // until it is stopped; 0: it does not say
	// AllGPUs says that the profile does not say how many.
	AllGPUs bool
	// Held says that the host holds what runs to CPUs and memory, and a process to GPUs. If it does not, a task that runs a program is refused
	// where one of these is limited.
	Held bool

	Volumes   []string // names of the engine's volumes
	Paths     []string // of the host, without symbolic links
	Folders   []Folder // of the host, by the names that its policy has for them
	Targets   []string // of artifacts, likewise
	Networks  []string
	Isolation []string // what is to be opened: OPTION or OPTION=VALUE, as the engine's options are named
	Secrets   []string // names of values that this host has
}

// runs reports whether the task has the host run a program of somebody else's.
func (r Request) runs() bool { return r.Type != "PULL_IMAGE" && r.Type != "MAKE_SWARM_USER_CONTENT" }

// holds reports whether what the task runs is held to a limit, or to none by any host. Whatever runs too long the host itself ends, and only a program
// without a container sees GPUs that nobody has given it.
func (r Request) holds(limit string) bool {
	return r.Held || !r.runs() || limit == hoursLimit || limit == diskLimit || limit == gpusLimit && r.Runtime != Process
}

// known are the facts of a request, by the names that conditions have for them. Of an image's digests it has the first.
func (r Request) known() map[string]string {
	facts := map[string]string{
		"task.type": r.Type, "task.name": r.Task, "task.digest": r.Digest, "task.outcome": r.Outcome,
		"image.reference": r.Image.Name, "image.repository": repository(r.Image.Name), imageDigest: "",
		"content.host": r.ContentHost, "taskrunner": r.Taskrunner, "swarm": r.Swarm, "runtime": r.Runtime,
	}
	if all := r.Image.Values(); len(all) > 0 {
		facts[imageDigest] = all[0]
	}
	return facts
}

// open are the facts of which anything may be hoped.
func (r Request) open() []string {
	switch {
	case !r.AnyImage:
		return nil
	case r.Image.Name != "":
		return []string{imageDigest}
	}
	return []string{imageDigest, "image.reference", "image.repository"}
}

// imageDigest is the fact that stands for an image, whatever its name.
const imageDigest = "image.digest"

func facts() []string {
	names := []string{secretName}
	for name := range (Request{}).known() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// repository is an image's reference without tag and digest.
func repository(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if slash, colon := strings.LastIndexByte(reference, '/'), strings.LastIndexByte(reference, ':'); colon > slash {
		return reference[:colon]
	}
	return reference
}

// checkValue finds values that a fact never has.
func checkValue(fact, value string) error {
	switch fact {
	case "task.type":
		return oneOf(fact, value, "RUN_SWARM", "MAKE_USER_CONTAINER", "PULL_IMAGE", "MAKE_SWARM_USER_CONTENT", "RUN_JOB")
	case "runtime":
		return oneOf(fact, value, "docker", "podman", Process)
	case "task.digest":
		if !isHex(value) {
			return fmt.Errorf("%.80s is no digest of a task: want 64 hex digits, as swarmctl shows them", sentence.Quote(value))
		}
	case imageDigest:
		if !isImageDigest(value) {
			return fmt.Errorf("%.80s is no digest of an image: want sha256: and 64 hex digits", sentence.Quote(value))
		}
	}
	return nil
}

func isHex(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func oneOf(fact, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	if near := suggest.Word(value, known); near != "" {
		return fmt.Errorf("%.80s is no %s: did you mean %s?", sentence.Quote(value), fact, near)
	}
	return fmt.Errorf("%.80s is no %s: want %s", sentence.Quote(value), fact, strings.Join(known, ", "))
}
